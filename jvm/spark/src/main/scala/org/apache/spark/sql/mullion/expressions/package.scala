package org.apache.spark.sql.mullion

/** Catalyst expressions and aggregate functions of Mullion's plans.
  * {{{
  *   columns     values of a row: its time, gap, ranges, shard, place in the batch
  *   rows        projections, and rows that are collected or merged
  *   functions   aggregates: deduplicated, newer than their pane, limited in size
  *   udf         functions of Python that the operator calls
  * }}}
  */
package object expressions
