package org.apache.spark.sql.mullion

/** Logical nodes ([[WindowedAggregate]], [[WindowsTogether]]), the rules that refuse what cannot run
  * ([[RefuseAtStart]]), and the strategy that makes plans of them ([[WindowStrategy]]).
  */
package object plan
