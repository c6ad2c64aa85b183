package org.apache.spark.sql.mullion.operator.engine

/** Windows whose rows are processed one by one, in order of arrival: by row numbers, with a trigger, with a firing per
  * row or a clock per key ([[ArrivalPanes]], and [[ArrivalKey]] for one key), and global windows that a function splits
  * ([[SplitPanes]]). Their rows are not aggregated before the shuffle.
  */
package object rowwise
