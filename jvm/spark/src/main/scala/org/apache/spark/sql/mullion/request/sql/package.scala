package org.apache.spark.sql.mullion.request

/** Functions of SQL that return rows, such as `mullion_windowed(TABLE(df), …)`. [[TableFunctions]] registers them; each
  * turns its arguments into the request of `ResolveCalls`.
  */
package object sql
