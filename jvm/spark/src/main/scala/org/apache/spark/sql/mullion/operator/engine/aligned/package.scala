package org.apache.spark.sql.mullion.operator.engine

/** Windows of time whose edges do not depend on a key's rows. [[TumblingPanes]] stores one record per pane, also for
  * ranges defined by rows; [[SlidingPanes]] stores a row once, in a slice that windows share. [[Slices]] have one
  * record each, or one for several consecutive ones.
  */
package object aligned
