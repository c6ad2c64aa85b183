package org.apache.spark.sql.mullion

/** Calls that reach the driver inside a plan: [[ResolveCalls]] replaces them.
  *
  * {{{
  *   Spark Connect   df.hint("mullion", json, columns…)                     from a client, in a hint
  *   SQL             mullion_windowed(TABLE(df), …)    sql.TableFunctions   becomes such a hint
  * }}}
  * [[Calls]] lists the requests. Over py4j they use `dev.mullion.Facade`, with the same JSON.
  */
package object request
