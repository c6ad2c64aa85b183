package org.apache.spark.sql.mullion.exec.panes

/** Windows of time whose edges do not depend on a key's rows. [[TumblingPanes]] keeps one record for each pane, also
  * for ranges that rows bring; [[SlidingPanes]] keeps a row once, in a slice that windows share. [[Slices]] have a
  * record each, or one for a few that follow each other.
  */
package object grid
