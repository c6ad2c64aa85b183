package org.apache.spark.sql.mullion.operator

import org.apache.spark.internal.config.MEMORY_OFFHEAP_SIZE
import org.apache.spark.memory.{MemoryManager, MemoryMode}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  Attribute,
  BaseOrdering,
  BindReferences,
  BoundReference,
  RowOrdering,
  SortOrder,
  SortPrefix,
  UnsafeProjection,
  UnsafeRow
}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.UnsafeExternalRowSorter.PrefixComputer
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{
  ColumnarRule,
  SortExec,
  SortPrefixUtils,
  SparkPlan,
  UnaryExecNode,
  UnsafeExternalRowSorter
}
import org.apache.spark.sql.mullion.state.record.WordOrder
import org.apache.spark.sql.types.{LongType, TimestampType}
import org.apache.spark.unsafe.Platform
import org.apache.spark.util.collection.unsafe.sort.RecordComparator
import org.apache.spark.{SparkEnv, TaskContext}

/** Sorts the rows of a partition, like Spark's own node and with Spark's sorter, in pages of a megabyte.
  *
  * Spark's node allocates pages of up to 64 MB, beginning with its first row. A micro-batch has few rows after its
  * partial aggregate, and each task of each batch would clear such a page and leave it to the collector.
  */
final case class SortByKeyExec(order: Seq[SortOrder], child: SparkPlan) extends UnaryExecNode {

  override def output: Seq[Attribute] = child.output

  override def outputOrdering: Seq[SortOrder] = order

  override def outputPartitioning: Partitioning = child.outputPartitioning

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "sortTime" -> SQLMetrics.createTimingMetric(sparkContext, "sort time"),
    "peakMemory" -> SQLMetrics.createSizeMetric(sparkContext, "peak memory"),
    "spillSize" -> SQLMetrics.createSizeMetric(sparkContext, "spill size")
  )

  override protected def doExecute(): RDD[InternalRow] = {
    val (sortTime, peakMemory, spillSize) = (longMetric("sortTime"), longMetric("peakMemory"), longMetric("spillSize"))
    val sorters = new SortByKeyExec.Sorters(order, child.output, conf.enableRadixSort)
    val columns = child.output.length
    child.execute().mapPartitionsInternal { rows =>
      val task = TaskContext.get().taskMetrics()
      val spilledBefore = task.memoryBytesSpilled
      val sorter = sorters.make()
      val sorted = sorter.sort(rows.asInstanceOf[Iterator[UnsafeRow]])
      sortTime += sorter.getSortTimeNanos / 1000000L
      peakMemory += sorter.getPeakMemoryUsage
      spillSize += task.memoryBytesSpilled - spilledBefore
      task.incPeakExecutionMemory(sorter.getPeakMemoryUsage)
      new SortedPrefetch(sorted, columns)
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): SortByKeyExec = copy(child = newChild)
}

object SortByKeyExec {

  /** Creates the sorters of tasks. */
  private final class Sorters(order: Seq[SortOrder], output: Seq[Attribute], radix: Boolean) extends Serializable {
    private val first = BindReferences.bindReference(order.head, output)
    private val schema = DataTypeUtils.fromAttributes(output)

    def make(): UnsafeExternalRowSorter = UnsafeExternalRowSorter.createWithRecordComparator(
      schema,
      () => new WhereAlike(schema.length, RowOrdering.create(order, output)),
      SortPrefixUtils.getPrefixComparator(first),
      prefixes(),
      pageBytes(SparkEnv.get.memoryManager),
      radix && order.length == 1 && SortPrefixUtils.canSortFullyWithPrefix(first)
    )

    private def prefixes(): PrefixComputer = first.child match {
      case WordOrder(BoundReference(at, _: LongType | _: TimestampType, _)) => ofWord(at)
      case _                                                                => projected()
    }

    /** For a key that is one word of a row: it is read without generated code. */
    private def ofWord(at: Int): PrefixComputer = new PrefixComputer {
      private val ofNull = SortPrefix(first).nullValue
      private val result = new PrefixComputer.Prefix

      override def computePrefix(row: InternalRow): PrefixComputer.Prefix = {
        result.isNull = row.isNullAt(at)
        result.value = if (result.isNull) ofNull else WordOrder.of(row.getLong(at))
        result
      }
    }

    private def projected(): PrefixComputer = {
      val expression = SortPrefix(first)
      val projection = UnsafeProjection.create(Seq(expression))
      new PrefixComputer {
        private val result = new PrefixComputer.Prefix

        override def computePrefix(row: InternalRow): PrefixComputer.Prefix = {
          val prefix = projection(row)
          result.isNull = prefix.isNullAt(0)
          result.value = if (result.isNull) expression.nullValue else prefix.getLong(0)
          result
        }
      }
    }
  }

  /** Compares rows with equal prefixes. Few tasks need it, so its code is generated lazily. */
  private final class WhereAlike(columns: Int, ordering: => BaseOrdering) extends RecordComparator {
    private lazy val generated = ordering
    private val (one, other) = (new UnsafeRow(columns), new UnsafeRow(columns))

    override def compare(base1: Object, at1: Long, bytes1: Int, base2: Object, at2: Long, bytes2: Int): Int = {
      one.pointTo(base1, at1, bytes1)
      other.pointTo(base2, at2, bytes2)
      generated.compare(one, other)
    }
  }

  private def pageBytes(manager: MemoryManager): Long = {
    val inHeap = manager.tungstenMemoryMode == MemoryMode.ON_HEAP
    val all = if (inHeap) Runtime.getRuntime.maxMemory else SparkEnv.get.conf.get(MEMORY_OFFHEAP_SIZE)
    val bytes = pageBytes(all, manager.pageSizeBytes)
    // With its header an array then fills a multiple of the collector's regions.
    if (inHeap) bytes - Platform.LONG_ARRAY_OFFSET else bytes
  }

  /** The size of pages. A task's table has 8,192 pages: half as many can hold all memory, unless Spark's page size is
    * too small for that.
    */
  private[operator] def pageBytes(all: Long, ofSpark: Long): Long = {
    val needed = java.lang.Long.highestOneBit(Math.max(1L, all / HalfOfTable - 1)) * 2
    Math.min(ofSpark, Math.max(LeastPage, needed))
  }

  private final val HalfOfTable = 4096
  private final val LeastPage = 1L << 20

  /** A node that requires its rows sorted by a number of their key. */
  trait Wanted extends SparkPlan

  /** Replaces Spark's sort below such a node. */
  object InPlaceOfSparks extends ColumnarRule {
    override def postColumnarTransitions: Rule[SparkPlan] = (plan: SparkPlan) =>
      plan.transformUp { case operator: Wanted =>
        operator.mapChildren {
          case SortExec(order, false, child, _) => SortByKeyExec(order, child)
          case other                            => other
        }
      }
  }
}
