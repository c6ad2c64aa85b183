package org.apache.spark.sql.mullion.operator.scan

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.csv.CSVFileFormat
import org.apache.spark.sql.execution.datasources.json.JsonFileFormat
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.datasources.text.TextFileFormat
import org.apache.spark.sql.execution.datasources.{FileFormat, PartitionedFile}
import org.apache.spark.sql.execution.{ColumnarRule, FileSourceScanExec, SparkPlan}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.shim.Classic
import org.apache.spark.sql.mullion.state.OwnStateExec
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.StructType

/** Makes file scans below Mullion's operators send [[SettingsAlone]] to their tasks.
  *
  * A scan sends its settings for each batch, and Hadoop's compression of the origin of each setting took 10 % of a
  * batch of a hundred rows. Only for Spark's own formats, which do not read origins.
  */
object LightScans extends ColumnarRule {

  override def preColumnarTransitions: Rule[SparkPlan] = (plan: SparkPlan) =>
    if (!plan.exists(_.isInstanceOf[OwnStateExec])) plan
    else
      plan.transformUp {
        case scan: FileSourceScanExec if scan.relation.bucketSpec.isEmpty && !scan.disableBucketedScan =>
          light.get(scan.relation.fileFormat.getClass).fold(scan)(reading(scan, _))
      }

  private def reading(scan: FileSourceScanExec, format: FileFormat): FileSourceScanExec = {
    val relation = scan.relation.copy(fileFormat = format)(scan.relation.sparkSession)
    // Formats of a kind are equal, and a plan keeps equal nodes: without buckets this flag only makes the node
    // different.
    val light = scan.copy(relation = relation, disableBucketedScan = true)
    light.copyTagsFrom(scan)
    light
  }

  private val light: Map[Class[_], FileFormat] = Map(
    classOf[ParquetFileFormat] -> new Parquet,
    classOf[OrcFileFormat] -> new Orc,
    classOf[JsonFileFormat] -> new Json,
    classOf[CSVFileFormat] -> new Csv,
    classOf[TextFileFormat] -> new Texts
  )

  /** True if a format is one of these. */
  private[scan] def isLight(format: FileFormat): Boolean = format.isInstanceOf[Light]

  /** A format whose reader gets settings without origins. */
  private trait Light extends FileFormat {
    override def buildReaderWithPartitionValues(
        session: SparkSession,
        dataSchema: StructType,
        partitionSchema: StructType,
        requiredSchema: StructType,
        filters: Seq[Filter],
        options: Map[String, String],
        settings: Configuration
    ): PartitionedFile => Iterator[InternalRow] = {
      val alone = new SettingsAlone(settings)
      def newReader =
        super.buildReaderWithPartitionValues(
          session,
          dataSchema,
          partitionSchema,
          requiredSchema,
          filters,
          options,
          alone
        )
      if (filters.nonEmpty) newReader
      else {
        val ofSpark = Seq(Classic.session(session).sessionState.conf, SQLConf.get).map(_.getAllConfs)
        readers(
          session,
          KnownReaders.Asked(getClass, dataSchema, partitionSchema, requiredSchema, options, alone.all, ofSpark)
        )(newReader)
      }
    }
  }

  private val readers = new KnownReaders

  private final class Parquet extends ParquetFileFormat with Light
  private final class Orc extends OrcFileFormat with Light
  private final class Json extends PlainJsonFiles with Light
  private final class Csv extends CSVFileFormat with Light
  private final class Texts extends TextFileFormat with Light
}
