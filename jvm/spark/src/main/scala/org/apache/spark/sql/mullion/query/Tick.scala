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

/** A source without rows that requests additional batches. Its offsets in Spark's log record their purpose.
  *
  *   - One when a query restarts. Panes that close by the wall clock may have fallen due during its downtime, and Spark
  *     runs no batch without rows until it has run one: a stream that stays quiet would keep them open for ever.
  *   - One when the input of a query has ended, if it has windows that close then. The input has ended when the query
  *     is draining and a batch has found no more rows.
  *
  * {{{
  *   batch    7: rows   8: rows   9: none   10: the end
  *   ticks    1, 0      1, 0      1, 0      1, 1            starts of the query, ends of its input
  * }}}
  *
  * A repeated batch has its original offsets.
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

  /** True if a plan consists of this source alone. */
  def isAll(plan: LogicalPlan): Boolean = plan.collectLeaves().forall {
    case relation: StreamingRelationV2 => relation.table == TickTable
    case _                             => false
  }

  /** The rows, unioned with a source that requests a batch when the query restarts. */
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

/** Its offset counts the restarts of the query, and the ends of its input. */
private[mullion] final class TickStream
    extends MicroBatchStream
    with SupportsAdmissionControl
    with SupportsTriggerAvailableNow {
  import TickStream._

  // The number of restarts, once there is one; a new query has nothing to catch up.
  private var starts = Option.empty[Long]

  override def initialOffset(): Offset = {
    starts = Some(0)
    Ticks(0, 0)
  }

  override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
    val from = ticksOf(start)
    val started = starts.getOrElse(from.starts + 1)
    starts = Some(started)
    Ticks(started, from.ends + (if (RunningQuery.current.exists(InputEnd.isNext)) 1 else 0))
  }

  override def latestOffset(): Offset = throw new UnsupportedOperationException("asked with a start only")

  override def prepareForTriggerAvailableNow(): Unit = ()

  override def deserializeOffset(json: String): Offset = Ticks.of(json)

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
  private[query] final case class Ticks(starts: Long, ends: Long) extends Offset {
    override def json(): String = if (ends == 0) starts.toString else s"[$starts,$ends]"
  }

  private[query] object Ticks {
    private val OfStarts = "(\\d+)".r
    private val OfBoth = "\\[(\\d+),(\\d+)\\]".r

    def of(json: String): Ticks = json match {
      case OfStarts(starts)     => Ticks(starts.toLong, 0)
      case OfBoth(starts, ends) => Ticks(starts.toLong, ends.toLong)
      case other                => throw new IllegalArgumentException(s"$other is not an offset of ${TickTable.name()}")
    }
  }

  private def ticksOf(offset: Offset): Ticks = offset match {
    case ticks: Ticks => ticks
    case other        => Ticks.of(other.json())
  }

  /** True if the input of a query ends with the batch from one offset to another. */
  private[mullion] def endsBetween(start: Offset, end: Offset): Boolean = (start, end) match {
    case (from: Ticks, to: Ticks) => to.ends > from.ends
    case _                        => false
  }
}
