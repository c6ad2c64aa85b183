package org.apache.spark.sql.mullion.pyfunction

/** Windows of Bytewax dataflows whose functions Python has translated: they run in the JVM, on values in the format of
  * the Python package (`bytewax/_values/values.py`). Clocks, grids and sessions are those of [[dev.mullion.windows]];
  * ids, late rows and the order of output are Bytewax's. If a key has a value in a batch that only Python supports
  * ([[expression.Untranslatable]]), Python processes the key in that batch, with the same rows and state.
  */
package object dataflow
