package org.apache.spark.sql.mullion.exec.panes

/** Windows whose rows are worked on one by one, in order of arrival: by row numbers, with a trigger, with a firing for
  * each row or a clock for each key ([[ArrivalPanes]], and [[ArrivalKey]] for one key of it), and global windows that a
  * function splits ([[SplitPanes]]). Their rows are not summed before the shuffle.
  */
package object arrival
