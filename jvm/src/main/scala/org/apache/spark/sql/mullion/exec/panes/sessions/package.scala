package org.apache.spark.sql.mullion.exec.panes

/** Sessions: panes that grow and merge as rows come ([[SessionPanes]]), and what they hold, in the key's record or in
  * records of their own ([[SessionSums]]).
  */
package object sessions
