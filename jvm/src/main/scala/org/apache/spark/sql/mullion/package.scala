package org.apache.spark.sql

/** What must see Spark's private parts, in rooms; `dev.mullion`'s comment has the map.
  *
  * Only here may names of `org.apache.spark.sql` that are private to Spark be used, and each use of Spark's internals
  * stands in one place with its reason. What differs between lines of Spark stands in `shim`.
  */
package object mullion
