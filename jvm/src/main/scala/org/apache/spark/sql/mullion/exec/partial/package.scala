package org.apache.spark.sql.mullion.exec

/** The partial aggregate of our own: groups in flat memory, added to by generated code, before the shuffle. It gives
  * the rows that Spark's would give, and stands back for Spark's wherever it cannot.
  */
package object partial
