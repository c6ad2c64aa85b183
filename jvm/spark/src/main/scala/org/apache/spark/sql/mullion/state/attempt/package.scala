package org.apache.spark.sql.mullion.state

/** The task attempt that counts. Each attempt writes a version of its partition under its own id, and no file is
  * written twice. A version is read by its id: from the driver, from Spark's commit log, or that of the last attempt
  * with files in the checkpoint. docs/reference/state.md documents the rule and its reasons.
  */
package object attempt
