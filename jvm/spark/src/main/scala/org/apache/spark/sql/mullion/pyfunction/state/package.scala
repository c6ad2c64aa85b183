package org.apache.spark.sql.mullion.pyfunction

/** Records and timers of a key, as the API of functions with state, over the partitions of `state`. */
package object state
