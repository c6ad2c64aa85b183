package org.apache.spark.sql.mullion.operator.scan

import org.apache.spark.sql.catalyst.FileSourceOptions
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.execution.datasources.FileScanRDD
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.execution.{
  ColumnarRule,
  ColumnarToRowExec,
  FileSourceScanExec,
  FilterExec,
  LocalTableScanExec,
  ProjectExec,
  SparkPlan
}
import org.apache.spark.sql.mullion.operator.assign.{AssignSlicesExec, FusedWatermarkExec}
import org.apache.spark.sql.mullion.operator.partial.{PartialAggregateExec, ReadColumnsExec}
import org.apache.spark.sql.mullion.operator.{PartitionsInTurnExec, SortByKeyExec, WindowExec}

/** Replaces the shuffle below a window's operator by [[ReadByEachTaskExec]] in a batch of one small file, or by
  * [[PartitionsInTurnExec]] if one task may process all partitions of state.
  *
  * Tasks that read the same file must get the same rows, with the same keys. Every node below the shuffle must
  * therefore be one of those below, and all expressions [[RepeatableExpressions]].
  */
object ReadByEachTask extends ColumnarRule {

  // The limit for repeated reads: about 100,000 rows of a few columns, which take less time than a stage.
  private val MostBytesAgain = 1L << 20

  override def postColumnarTransitions: Rule[SparkPlan] = (plan: SparkPlan) => {
    val alone = PartitionsInTurn.operator(plan)
    plan.transformUp { case operator: WindowExec =>
      operator.mapChildren {
        case SortByKeyExec(order, Repeatable(by, rows)) if alone.exists(_ eq operator) =>
          SortByKeyExec(order, PartitionsInTurnExec(by, rows))
        case Repeatable(by, rows) if alone.exists(_ eq operator) => PartitionsInTurnExec(by, rows)
        case other                                               => inPlaceOfShuffle(other)
      }
    }
  }

  private def inPlaceOfShuffle(plan: SparkPlan): SparkPlan = plan.transformDown { case Repeatable(by, rows) =>
    ReadByEachTaskExec(by, rows)
  }

  /** A shuffle whose rows each task may read. */
  private object Repeatable {
    def unapply(plan: SparkPlan): Option[(HashPartitioning, SparkPlan)] = plan match {
      case exchange: ShuffleExchangeExec =>
        (exchange.outputPartitioning, exchange.child) match {
          case (by: HashPartitioning, rows: PartialAggregateExec)
              if by.numPartitions <= exchange.session.sparkContext.defaultParallelism &&
                source(rows).exists(isSmall(_, by.numPartitions)) =>
            Some(by -> rows)
          case _ => None
        }
      case _ => None
    }
  }

  private def isSmall(source: SparkPlan, tasks: Int): Boolean = source match {
    case files: FileSourceScanExec =>
      files.inputRDD match {
        case read: FileScanRDD if read.filePartitions.length == 1 =>
          read.filePartitions.head.files.map(_.length).sum * (tasks - 1) <= MostBytesAgain
        case _ => false
      }
    case _ => true
  }

  /** A source that returns the same rows each time, through nodes that do. */
  private def source(plan: SparkPlan): Option[SparkPlan] =
    if (!RepeatableExpressions.areAllOf(plan)) None
    else
      plan match {
        case _: PartialAggregateExec | _: AssignSlicesExec | _: FusedWatermarkExec | _: ProjectExec | _: FilterExec |
            _: ColumnarToRowExec | _: ReadColumnsExec =>
          source(plan.children.head)
        case files: FileSourceScanExec if isKnown(files)   => Some(files)
        case none: LocalTableScanExec if none.rows.isEmpty => Some(none)
        case _                                             => None
      }

  /** If missing files are ignored, tasks may see different files. */
  private def isKnown(files: FileSourceScanExec): Boolean = {
    val options = new FileSourceOptions(CaseInsensitiveMap(files.relation.options))
    LightScans.isLight(files.relation.fileFormat) && !files.bucketedScan &&
    !options.ignoreMissingFiles && !options.ignoreCorruptFiles
  }
}
