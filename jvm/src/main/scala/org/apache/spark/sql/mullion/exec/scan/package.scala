package org.apache.spark.sql.mullion.exec

/** How batches of files are read below an operator of ours: with less sent to tasks than Spark sends, and without a
  * shuffle where a batch is one small file.
  */
package object scan
