package org.apache.spark.sql.mullion.query

import java.util.{Collections, Set => JavaSet}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Alias, Literal}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project, Union}
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability, TableProvider}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.types.{LongType, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** A source without rows, which asks for one batch when a query starts again. Panes that close by the wall clock may
  * have fallen due while the query was down, and Spark runs no batch of its own accord until it has run one: so a
  * stream that then stays quiet would keep them for good.
  */
final class TickProvider extends TableProvider {
  override def inferSchema(options: CaseInsensitiveStringMap): StructType = TickTable.schema

  override def getTable(
      schema: StructType,
      partitioning: Array[Transform],
      properties: java.util.Map[String, String]
  ): Table = TickTable
}

private[mullion] object Tick {

  /** Whether a plan is such a source, and nothing else. */
  def isAll(plan: LogicalPlan): Boolean = plan.collectLeaves().forall {
    case relation: StreamingRelationV2 => relation.table == TickTable
    case _                             => false
  }

  /** The rows, with a source beside theirs that asks for a batch when the query starts again. */
  def beside(spark: SparkSession, rows: LogicalPlan): LogicalPlan = {
    val ticks = spark.readStream.format(classOf[TickProvider].getName).load().queryExecution.analyzed
    Union(Seq(rows, Project(rows.output.map(a => Alias(Literal(None.orNull, a.dataType), a.name)()), ticks)))
  }
}

private object TickTable extends Table with SupportsRead {
  override val schema: StructType = new StructType().add("tick", LongType)

  override def name(): String = "mullion ticks"

  override def capabilities(): JavaSet[TableCapability] = Collections.singleton(TableCapability.MICRO_BATCH_READ)

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () =>
    new Scan {
      override def readSchema(): StructType = schema

      override def toMicroBatchStream(checkpoint: String): MicroBatchStream = new TickStream
    }
}

/** Its offset is how often the query has started again. */
private[mullion] final class TickStream
    extends MicroBatchStream
    with SupportsAdmissionControl
    with SupportsTriggerAvailableNow {
  import TickStream.Starts

  // A query that starts for the first time has nothing to catch up with.
  private var offset = Option.empty[Starts]

  override def initialOffset(): Offset = {
    offset = Some(Starts(0))
    Starts(0)
  }

  override def latestOffset(start: Offset, limit: ReadLimit): Offset = offset.getOrElse {
    val next = start match {
      case Starts(n) => Starts(n + 1)
      case other     => throw new IllegalArgumentException(s"$other is no offset of ${TickTable.name()}")
    }
    offset = Some(next)
    next
  }

  override def latestOffset(): Offset = throw new UnsupportedOperationException("asked with a start only")

  override def prepareForTriggerAvailableNow(): Unit = ()

  override def deserializeOffset(json: String): Offset = Starts(json.toLong)

  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] = Array.empty

  override def createReaderFactory(): PartitionReaderFactory = (_: InputPartition) =>
    new PartitionReader[InternalRow] {
      override def next(): Boolean = false
      override def get(): InternalRow = InternalRow.empty
      override def close(): Unit = ()
    }

  override def commit(end: Offset): Unit = ()

  override def stop(): Unit = ()

  override def toString: String = TickTable.name()
}

private[mullion] object TickStream {
  final case class Starts(n: Long) extends Offset {
    override def json(): String = n.toString
  }
}
