package org.apache.spark.sql.mullion

/** Logical nodes ([[WindowedAggregate]], [[WindowsTogether]]), the rules that reject unsupported plans
  * ([[RefuseAtStart]]), and the strategy that plans them ([[WindowStrategy]]).
  *
  * The rules of Spark's optimizer that match `Aggregate` do not match these nodes. Spark 4.0 to 4.3 have these:
  *
  * {{{
  *   rule                                 what it would change           here
  *   ReplaceExpressions                   results: aggregates fail       applied by builders.AnalysedCall
  *   EliminateDistinct                    max(DISTINCT v) is accepted    applied by builders.AnalysedCall
  *   RewriteWithExpression                results: guards are lost       builders.SharedValues
  *   PullOutGroupingExpressions           speed                          keys are columns of the Project below
  *   InsertMapSortInGroupingExpressions   results: equal maps            builders.WindowKeys
  *   NormalizeFloatingNumbers             results: -0.0 and NaN          builders.WindowKeys
  *   RewriteDistinctAggregates            count(DISTINCT v) is accepted  rejected by builders.CallChecks
  *   PushDownLeftSemiAntiJoin             results of streams             rejected by Refusals
  *   RewriteCorrelatedScalarSubquery      subqueries are accepted        rejected by builders.CallChecks
  *   DecimalAggregates                    speed of small decimals        exec.partial.DecimalSum
  *   OptimizeCsvJsonExprs                 speed: unused JSON columns     PruneJson
  *   ColumnPruning                        speed: unused results          missing: state holds all aggregates of a call
  *   PushPredicateThroughNonJoin          speed: filters on keys         missing: filter the input
  *   NullPropagation                      speed: count(v) of no nulls    missing: the column is read
  *   EliminateSorts                       speed: a sort of the input     missing: of batch DataFrames
  *   CollapseProject                      speed: a projection above      missing
  *   FoldablePropagation                  speed: constants above         missing
  *   RemoveLiteralFromGroupExpressions,
  *   RemoveRepetitionFromGroupExpressions speed: redundant keys          missing: keys are named columns of the output
  *   RemoveRedundantAggregates, distinct
  *   keys of joins and of dropDuplicates  speed of nodes above           missing
  *   PropagateEmptyRelation               speed of no input              missing: panes close without rows
  *   V2ScanRelationPushDown               speed: the source aggregates   missing: of batch DataFrames
  * }}}
  */
package object plan
