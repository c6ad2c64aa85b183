package org.apache.spark.sql.mullion

/** What topics need of the JVM: JSON text to columns and back without loss ([[JsonText]], [[JsonKind]], [[JsonFit]],
  * [[JsonShape]], [[JsonDecimals]]), the shards of such text ([[JsonShard]]), and the files of `dir:` topics
  * ([[TopicFileSystem]]). Python's `mullion.topics` decides what is read and written.
  */
package object topics
