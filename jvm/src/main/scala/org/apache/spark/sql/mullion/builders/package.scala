package org.apache.spark.sql.mullion

/** From a call in Python to a logical plan: [[WindowedBuilder]], [[TogetherBuilder]], [[StatefulBuilder]].
  *
  * Each refusal stands once, before a query starts:
  * {{{
  *   dev.mullion.windows   a rule of panes by itself
  *   WindowChecks          a window and what is asked of its panes, without columns
  *   CallChecks            the columns of one call
  *   plan.MullionRules     a plan: what stands before and after the windows, and settings
  * }}}
  * Python checks types and names of columns, and no more.
  */
package object builders
