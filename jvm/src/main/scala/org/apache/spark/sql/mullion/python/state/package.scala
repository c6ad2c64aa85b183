package org.apache.spark.sql.mullion.python

/** Records and timers of a key, as a function with state sees them, over the partitions of `state`. */
package object state
