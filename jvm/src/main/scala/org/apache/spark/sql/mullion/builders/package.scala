package org.apache.spark.sql.mullion

/** From a call in Python to a logical plan: [[WindowedBuilder]], [[TogetherBuilder]], [[StatefulBuilder]]. What a user
  * asks for is checked here, before a query starts.
  */
package object builders
