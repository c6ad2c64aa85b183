package org.apache.spark.sql.mullion.state

/** The meaning of an operator's state, as JSON next to the state: windows, keys, aggregates, formats. It is compared at
  * each start, before anything is written. A different query raises an error that lists the differences.
  */
package object header
