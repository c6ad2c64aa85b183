package org.apache.spark.sql.mullion.checkpoint.inspect

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.classic.{DataFrame, SparkSession}
import org.apache.spark.sql.mullion.checkpoint.layout.OperatorState
import org.apache.spark.sql.mullion.pyfunction.branch.BranchState
import org.apache.spark.sql.mullion.pyfunction.keyed.KeyedFunctionHeader
import org.apache.spark.sql.mullion.pyfunction.state.KeyedState
import org.apache.spark.sql.mullion.state.header.OperatorHeader
import org.apache.spark.sql.types._
import org.apache.spark.util.SerializableConfiguration

import dev.mullion.MullionException

/** Reads the records of functions' state from a checkpoint, as of its last committed batch. */
object StateReader {
  private[checkpoint] val kind: OperatorState.Kind[KeyedFunctionHeader] = OperatorState.Kind[KeyedFunctionHeader](
    "function with state",
    "functions with state",
    (root, hadoopConf, _) => KeyedFunctionHeader.read(root, hadoopConf),
    header => if (header.shards.isEmpty) "in one shard" else header.shards.mkString("by ", ", ", "")
  )

  /** The state of a window between stages. */
  def locateWindow(
      spark: SparkSession,
      checkpoint: String,
      operator: Int,
      window: String
  ): OperatorState[OperatorHeader] = {
    val of = OperatorState.locate(spark, checkpoint, operator, kind)
    val hadoopConf = spark.sessionState.newHadoopConf()
    val root = new Path(of.root, of.operator.toString)
    val branches = BranchState.all(root, hadoopConf)
    val folder = BranchState.folderOf(root, window)
    val state = for {
      branch <- branches.find(_.name == window)
      header <- OperatorHeader.read(new Path(folder, branch.number.toString), hadoopConf)
      version = branch.versionAfter(of.version - 1) if version > 0
    } yield OperatorState(folder.toString, branch.number, header, branch.partitions, version, None)
    state.getOrElse {
      val names = if (branches.isEmpty) "none" else branches.map(branch => s"'${branch.name}'").mkString(", ")
      throw MullionException.invalid(
        s"There is no window '$window' with readable panes in $checkpoint. Its windows are $names; a window that " +
          "has not run yet has no panes."
      )
    }
  }

  private val schema = new StructType()
    .add("shard", IntegerType, nullable = false)
    .add("key", BinaryType, nullable = false)
    .add("value", BinaryType, nullable = false)

  def read(spark: SparkSession, checkpoint: String, operator: Int): DataFrame = {
    val state = OperatorState.locate(spark, checkpoint, operator, kind)
    val families = KeyedState.families
    val opener = state.opener(spark, families)
    val conf = spark.sparkContext.broadcast(new SerializableConfiguration(spark.sessionState.newHadoopConf()))
    val rows = spark.sparkContext.parallelize(0 until state.partitions, state.partitions).mapPartitions { partitions =>
      partitions.flatMap { partition =>
        opener.look(partition, conf.value.value) { opened =>
          val records = opened.family(families.head).all()
          // Eager: the store closes afterwards.
          try
            records
              .map(r => InternalRow(partition, r.key.getBinary(0), r.value.getBinary(0)): InternalRow)
          finally records.close()
        }
      }
    }
    spark.internalCreateDataFrame(rows, schema)
  }
}
