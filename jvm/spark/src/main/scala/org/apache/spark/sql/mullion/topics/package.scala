package org.apache.spark.sql.mullion

/** Topics: lossless conversion of JSON text to columns and back ([[JsonText]], [[JsonKind]], [[JsonFit]],
  * [[JsonShape]], [[JsonDecimals]]), the shards of such text ([[JsonShard]]), and the files of `dir:` topics
  * ([[TopicFileSystem]]). Python's `mullion.topics` is the caller.
  */
package object topics
