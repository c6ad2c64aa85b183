package org.apache.spark.sql.mullion

/** Functions of Python with state, which rows pass through before windows or after them (Turbine's `process` and
  * callbacks, Faust's agents).
  * {{{
  *   state    records and timers of a key, as a function sees them
  *   folds    agents that only fold events into tables, run here without Python
  * }}}
  * [[StatefulFunctionExec]] is the operator; [[StateServer]] answers a worker's calls over a local socket. Nothing that
  * came from outside is evaluated.
  */
package object python
