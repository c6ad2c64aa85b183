package org.apache.spark.sql.mullion

/** Tables with the latest output of each pane: rows upserted by JDBC ([[JdbcUpsert]]), versions of a Parquet table
  * ([[TableVersions]]). Python's `mullion.tables` calls them.
  */
package object tables
