package org.apache.spark.sql.mullion.expressions

/** Aggregate functions: over distinct rows, newer than their pane, limited in size, as text.
  */
package object functions
