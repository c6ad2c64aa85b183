package org.apache.spark.sql.mullion

/** Python functions with state, and what evaluates them in the JVM.
  * {{{
  *   expression  Python's values, numbers and operators
  *   state       records and timers of a key
  *   agents      Faust's agents whose bodies are translated
  *   dataflow    Bytewax's steps whose functions are translated
  *   branch      windows between two stages of one task
  *   keyed       the operator of functions with state, and the server of their state
  * }}}
  */
package object pyfunction
