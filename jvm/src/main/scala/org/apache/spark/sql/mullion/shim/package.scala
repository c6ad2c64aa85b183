package org.apache.spark.sql.mullion

/** What differs between Spark's lines, and nothing else: one source folder for each line, `jvm/src/main/spark-<line>`.
  * A new line begins as a copy of the newest folder. [[Classic]] refuses sessions that are not of the driver.
  */
package object shim
