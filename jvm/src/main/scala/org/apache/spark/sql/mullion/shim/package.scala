package org.apache.spark.sql.mullion

/** What differs between Spark's lines, and nothing else: one source folder for each line, `jvm/src/main/spark-<line>`.
  * `-up` and `-down` behind a line are those after and before it, too. A new line begins with those of the newest.
  * [[Classic]] refuses sessions that are not of the driver.
  */
package object shim
