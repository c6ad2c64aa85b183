package org.apache.spark.sql.mullion.operator

/** Faster file scans below Mullion's operators: with less data per task, and without a shuffle if a batch is one small
  * file.
  */
package object scan
