package org.apache.spark.sql.mullion.operator

/** Mullion's partial aggregate: groups in flat memory, updated by generated code, before the shuffle. It gives the rows
  * of Spark's, which is used where this one is not supported.
  */
package object partial
