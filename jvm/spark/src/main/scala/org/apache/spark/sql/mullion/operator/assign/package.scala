package org.apache.spark.sql.mullion.operator

/** Nodes below the partial aggregate: the panes of a row, and its lateness ([[AssignSlicesExec]], in generated code
  * without an allocation per row), and late rows that bypass the aggregate ([[SideRows]]).
  */
package object assign
