package org.apache.spark.sql.mullion.state

/** Which attempt of a task counts. Each attempt writes a version of its partition under an id of its own, and no file
  * is ever written twice. A version is read by its id: the driver's, Spark's commit log's, or that of the last attempt
  * whose files are in the checkpoint. docs/state.md gives the rule and its reasons.
  */
package object attempts
