package org.apache.spark.sql.mullion.operator.scan

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.json.JSONOptionsInRead
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.datasources.json.{JsonDataSource, JsonFileFormat}
import org.apache.spark.sql.mullion.expressions.columns.PlainJsonParser
import org.apache.spark.sql.mullion.shim.Classic
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.SerializableConfiguration

/** Spark's files of JSON, one text in a line, whose plain texts take the shorter way of [[PlainJsonParser]]. */
private[scan] class PlainJsonFiles extends JsonFileFormat {

  override def buildReader(
      session: SparkSession,
      dataSchema: StructType,
      partitionSchema: StructType,
      requiredSchema: StructType,
      filters: Seq[Filter],
      options: Map[String, String],
      settings: Configuration
  ): PartitionedFile => Iterator[InternalRow] = {
    // It also checks the schema.
    val ofSpark = super.buildReader(session, dataSchema, partitionSchema, requiredSchema, filters, options, settings)
    val conf = Classic.session(session).sessionState.conf
    val parsedOptions = new JSONOptionsInRead(options, conf.sessionLocalTimeZone, conf.columnNameOfCorruptRecord)
    // Spark's parser applies filters while it reads.
    if (filters.nonEmpty || !PlainJsonParser.isUsable(requiredSchema, options)) ofSpark
    else {
      val columns = StructType(requiredSchema.filterNot(_.name == parsedOptions.columnNameOfCorruptRecord))
      val sent = session.sparkContext.broadcast(new SerializableConfiguration(settings))
      file => {
        val parser = new PlainJsonParser(columns, parsedOptions, allowArrayAsStructs = true)
        JsonDataSource(parsedOptions).readFile(sent.value.value, file, parser, requiredSchema)
      }
    }
  }
}
