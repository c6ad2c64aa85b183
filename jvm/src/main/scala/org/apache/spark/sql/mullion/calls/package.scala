package org.apache.spark.sql.mullion

/** Calls that come to the driver inside of a plan: [[ResolveCalls]] puts in their place what they ask for.
  *
  * {{{
  *   Spark Connect   df.hint("mullion", json, columns…)                     from a client, in a hint
  *   SQL             mullion_windowed(TABLE(df), …)    TableFunctions       becomes such a hint
  * }}}
  * [[Calls]] says what there is to ask for. Over py4j the same comes to `dev.mullion.Facade`, with the same JSON.
  */
package object calls
