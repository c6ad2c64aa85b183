package org.apache.spark.sql.mullion.plan

/** From a call in Python to a logical plan: [[WindowedBuilder]], [[TogetherBuilder]], [[KeyedFunctionBuilder]].
  *
  * Each check exists once, and runs before a query starts:
  * {{{
  *   dev.mullion.windows   a rule of panes
  *   WindowChecks          a window and its options, without columns
  *   CallChecks            the columns of one call
  *   plan.MullionRules     a plan: operators above and below the windows, and settings
  * }}}
  * Python checks types and names of columns, and no more.
  */
package object build
