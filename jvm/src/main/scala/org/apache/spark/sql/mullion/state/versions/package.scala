package org.apache.spark.sql.mullion.state

/** Which version of a partition counts. A task may run twice, be given up, or go on from a checkpoint that another
  * attempt wrote; a version has an id, says which one it was made from, and a task goes on only from the one that was
  * committed.
  */
package object versions
