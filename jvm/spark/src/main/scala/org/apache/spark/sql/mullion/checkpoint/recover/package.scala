package org.apache.spark.sql.mullion.checkpoint

/** The recovery of a query that has lost state: it returns to the newest complete version.
  */
package object recover
