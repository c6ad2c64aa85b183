package org.apache.spark.sql.mullion

/** Python functions with state that rows pass through before or after windows (Turbine's `process` and callbacks,
  * Faust's agents).
  * {{{
  *   state    records and timers of a key, for a function
  *   folds    agents that only aggregate events in tables, run in the JVM
  * }}}
  * [[StatefulFunctionExec]] is the operator; [[StateServer]] answers a worker's calls over a local socket. No external
  * input is evaluated.
  */
package object python
