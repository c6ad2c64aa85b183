package org.apache.spark.sql.mullion.python

/** Agents of Faust that only fold events into windowed tables, read from what Python parsed of them and run in the JVM.
  * What only Python does ([[Odd]]) is left to Python, event by event: an answer is Python's, or the event goes there.
  */
package object folds
