package org.apache.spark.sql.mullion

import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection}
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.classic.{DataFrame, SparkSession}
import org.apache.spark.sql.execution.streaming.checkpointing.{CheckpointFileManager, CommitLog}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.exec.{OperatorProgram, PaneCounts}
import org.apache.spark.sql.mullion.state.{OperatorHeader, PartitionOpener, StateHeader}
import org.apache.spark.sql.types.{DataType, StructField, StructType, TimestampType}
import org.apache.spark.util.SerializableConfiguration

import dev.mullion.MullionException
import dev.mullion.windows.{BatchClock, PaneClock}

/** Reads the open panes out of a checkpoint, as they stand after its last committed batch. Spark's own state reader
  * cannot: it knows neither our records' order nor what an accumulator means.
  */
object PanesReader {

  /** Stands for the time of rows that there are none of. */
  private[mullion] val eventTime = "mullion_event_time"

  def read(spark: SparkSession, checkpoint: String, operator: Int): DataFrame = {
    val state = locate(spark, checkpoint, operator)
    val programs = state.header.windows match {
      case Seq((None, one)) => programsOf(rebuilt(spark, one, inputOf(one)))
      case several          =>
        // They are over one DataFrame, of which each says the columns that it reads.
        val schema = StructType(several.flatMap(window => inputOf(window._2)).distinctBy(_.name))
        val windows = several.map { case (name, header) => name.getOrElse("") -> rebuilt(spark, header, schema) }
        Seq(TogetherPlan(TogetherBuilder.node(windows)).program)
    }
    read(spark, state, programs.head)
  }

  /** With the functions of the query's own DataFrame. */
  def readOf(panes: DataFrame, checkpoint: String, operator: Int): DataFrame = {
    val spark = panes.sparkSession
    val state = locate(spark, checkpoint, operator)
    val programs = programsOf(panes)
    if (programs.isEmpty) throw MullionException.invalid("panes= is no result of windowed(...).agg(...).")
    val program = programs.find(p => state.header.differences(p.header).isEmpty).getOrElse(programs.head)
    val differences = state.header.differences(program.header)
    if (differences.nonEmpty)
      throw MullionException.incompatibleState(
        s"The panes in $checkpoint are another query's: ${differences.mkString("; ")}. Pass the DataFrame that wrote them."
      )
    read(spark, state, program)
  }

  /** Where an operator's state is, and the version to read. */
  private final case class Located(
      root: String,
      operator: Long,
      header: OperatorHeader,
      partitions: Int,
      version: Long,
      checkpointIds: Option[Array[Array[String]]]
  )

  private def locate(spark: SparkSession, checkpoint: String, operator: Int): Located = {
    val hadoopConf = spark.sessionState.newHadoopConf()
    val home = new Path(checkpoint)
    val root = new Path(home, "state")
    val files = CheckpointFileManager.create(home, hadoopConf)
    if (!files.exists(root))
      throw MullionException.invalid(
        s"There is no state in $checkpoint: it has no folder 'state'. Give the checkpointLocation of a query with a window."
      )
    val ours = files.list(root).map(_.getPath.getName).filter(_.forall(_.isDigit)).map(_.toLong).sorted.flatMap { id =>
      OperatorHeader.read(new Path(root, id.toString), hadoopConf).map(id -> _)
    }
    val (id, header) = (ours.toSeq, operator) match {
      case (Seq(), _)     => throw MullionException.invalid(s"No operator in $checkpoint is a window of Mullion's.")
      case (Seq(one), -1) => one
      case (several, -1)  =>
        val listed = several.map { case (i, h) => s"$i (${h.describe})" }.mkString(", ")
        throw MullionException.invalid(s"$checkpoint has several windows: say which with operator=, one of $listed.")
      case (several, wanted) =>
        several.find(_._1 == wanted).getOrElse {
          val listed = several.map(_._1).mkString(", ")
          throw MullionException.invalid(
            s"Operator $wanted of $checkpoint is no window of Mullion's; there is $listed."
          )
        }
    }
    val (batch, commit) = new CommitLog(spark, new Path(home, "commits").toString)
      .getLatest()
      .getOrElse(
        throw MullionException.invalid(s"No batch in $checkpoint has been committed yet: there is nothing to read.")
      )
    val partitions = partitionsOf(root, id, hadoopConf, batch)
    val latest = Located(root.toString, id, header, partitions, batch + 1, commit.stateUniqueIds.flatMap(_.get(id)))
    if (header.state != StateChoice.Memory.name) latest
    else
      Recovery
        .snapshots(spark, home, id, partitions)
        .filter(_._1 <= latest.version)
        .maxByOption(_._1)
        .fold(
          throw MullionException.stateLost(s"There is no snapshot of the state in memory in $checkpoint to read.")
        ) { case (version, ids) =>
          latest.copy(version = version, checkpointIds = ids)
        }
  }

  /** How many partitions the state of an operator has. */
  private[mullion] def partitionsOf(root: Path, operator: Long, hadoopConf: Configuration, batch: Long): Int =
    OperatorStateMetadataReader
      .createReader(new Path(root, operator.toString), hadoopConf, 1, batch)
      .read()
      .collect { case OperatorStateMetadataV1(_, stores) => stores.head.numPartitions }
      .getOrElse(throw MullionException.incompatibleState(s"$root has no metadata of operator $operator."))

  /** The query that wrote the state, over no rows: its aggregates from their text. */
  private def rebuilt(spark: SparkSession, header: StateHeader, schema: StructType): DataFrame = {
    val empty =
      spark.createDataFrame(new java.util.ArrayList[org.apache.spark.sql.Row](), schema.add(eventTime, TimestampType))
    val options = WindowOptions(
      time = Option.unless(header.clock == PaneClock.ProcessingTime.name)(expr(eventTime)),
      gap = header.window.gapByRow.map(expr),
      // Open panes know their ranges; what computed them may be a function that is not here.
      ranges = header.window.ranges.map(_ => CustomRanges.none),
      allowedLateness = header.allowedLateness,
      early = header.early,
      refinements = header.refinements,
      state = StateChoice.named(header.state),
      trigger = header.window.trigger.map(expr),
      running = header.rows.exists(_.running),
      perKey = header.rows.exists(_.delayByKey.isDefined),
      collect = header.rows.flatMap(_.asked.collect),
      // Open panes have been split as far as they are.
      split = header.rows.flatMap(_.splitOver).map(_ => UnknownSplit),
      splitColumns = header.rows.flatMap(_.splitOver).toSeq.flatten.map(c => expr(quoteIfNeeded(c)))
    )
    try WindowedBuilder(empty, header.window.spec, header.by.map(expr), options, header.aggregates.map(expr))
    catch {
      case e: Exception =>
        throw new MullionException(
          "UNSUPPORTED",
          s"The aggregates of this checkpoint cannot be built from their text (${header.aggregates.mkString(", ")}): " +
            s"${e.getMessage} Pass the query's own DataFrame: read_panes(checkpoint, panes=...).",
          Some(e)
        )
    }
  }

  private def inputOf(header: StateHeader): StructType = DataType.fromJson(header.input).asInstanceOf[StructType]

  private[mullion] def programsOf(panes: DataFrame): Seq[OperatorProgram] = panes.queryExecution.analyzed.collect {
    case node: WindowedAggregate => WindowStrategy.program(node)
    case node: WindowsTogether   => TogetherPlan(node).program
  }

  private def read(spark: SparkSession, state: Located, program: OperatorProgram): DataFrame = {
    val stores = PartitionOpener.confOf(program.state, spark.sessionState.conf)
    // How the checkpoint names its versions is a fact of the checkpoint, whatever the session now does.
    stores.setConf(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION, if (state.checkpointIds.isDefined) 2 else 1)
    val opener = new PartitionOpener(
      program.state,
      program.families,
      state.root,
      state.operator,
      UUID.randomUUID(),
      state.version,
      state.checkpointIds,
      new StateStoreConf(stores)
    )
    val conf = spark.sparkContext.broadcast(new SerializableConfiguration(spark.sessionState.newHadoopConf()))
    val output: Seq[Attribute] = program.output
    val hidden = Seq("pane", "late_row", WindowedBuilder.noKey)
    val shown = output.filterNot(a => hidden.contains(a.name))
    val rows = spark.sparkContext.parallelize(0 until state.partitions, state.partitions).mapPartitions { partitions =>
      val project = UnsafeProjection.create(shown, output)
      partitions.flatMap { partition =>
        opener.look(partition, conf.value.value) { opened =>
          val clock = BatchClock(BatchClock.BeforeAllTime, BatchClock.BeforeAllTime, 0L, rowsCame = false)
          val engine = program.engine(clock, opened, new PaneCounts)
          // All of a partition's rows, since the store closes behind them.
          engine.openPanes().map(row => project(row).copy(): InternalRow).toVector
        }
      }
    }
    spark.internalCreateDataFrame(rows, StructType(shown.map(a => StructField(a.name, a.dataType, a.nullable))))
  }
}
