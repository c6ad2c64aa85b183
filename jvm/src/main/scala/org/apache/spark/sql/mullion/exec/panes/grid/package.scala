package org.apache.spark.sql.mullion.exec.panes

/** Windows of time whose edges do not depend on a key's rows. [[TumblingPanes]] keeps one record for each pane, also
  * for ranges that rows bring; [[SlidingPanes]] keeps a row once, in a slice that windows share.
  */
package object grid
