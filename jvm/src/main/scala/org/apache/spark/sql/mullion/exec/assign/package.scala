package org.apache.spark.sql.mullion.exec

/** Below the partial aggregate: which panes a row enters, whether it is late ([[AssignSlicesExec]], in generated code,
  * without an allocation per row), and how late rows go round the aggregate ([[SideRows]]).
  */
package object assign
