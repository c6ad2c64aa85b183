package org.apache.spark.sql.mullion.pyfunction

/** Windows of Bytewax's dataflows whose functions Python has read: they run in the JVM, on values as the Python package
  * writes them (`bytewax/_values/values.py`). A key's batch is done here whole or not at all. What only Python does
  * ([[expression.Odd]]) is left to Python, which reads the same rows and the same state.
  */
package object dataflow
