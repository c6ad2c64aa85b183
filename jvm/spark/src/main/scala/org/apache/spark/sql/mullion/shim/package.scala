package org.apache.spark.sql.mullion

/** The differences between Spark versions: one source folder per version, `jvm/spark/src/main/spark-<version>`. The
  * suffixes `-up` and `-down` include later and earlier versions. A new version begins with a copy of the newest.
  * [[Classic]] rejects sessions of Spark Connect.
  */
package object shim
