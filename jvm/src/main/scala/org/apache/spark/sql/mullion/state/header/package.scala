package org.apache.spark.sql.mullion.state

/** What an operator's state means, as JSON beside the state: windows, keys, aggregates, formats. It is compared at each
  * start, before anything is written, and another query is refused with what differs.
  */
package object header
