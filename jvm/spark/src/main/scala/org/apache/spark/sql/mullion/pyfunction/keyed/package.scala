package org.apache.spark.sql.mullion.pyfunction

/** The operator of Python functions with state: its plan, its tasks, and the server through which a function uses its
  * state.
  */
package object keyed
