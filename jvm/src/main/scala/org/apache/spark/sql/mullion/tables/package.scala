package org.apache.spark.sql.mullion

/** Tables that keep what each pane showed last: rows upserted by JDBC ([[JdbcUpsert]]), versions of a Parquet table
  * ([[TableVersions]]). Python's `mullion.tables` calls them.
  */
package object tables
