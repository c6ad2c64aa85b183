package org.apache.spark.sql

/** The code that needs Spark's internal APIs; the comment of `dev.mullion` lists the packages.
  *
  * Only here may internal names of `org.apache.spark.sql` be used, and each use of Spark's internals is in one place
  * with its reason. Differences between Spark versions are in `shim`.
  */
package object mullion
