package org.apache.spark.sql.mullion.stateful

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.classic.{DataFrame, SparkSession}
import org.apache.spark.sql.mullion.{OperatorState, StateChoice}
import org.apache.spark.sql.types._
import org.apache.spark.util.SerializableConfiguration

/** Reads the records of functions' state out of a checkpoint, as they stand after its last committed batch. */
object StateReader {
  private val kind = OperatorState.Kind[StatefulHeader](
    "function with state",
    "functions with state",
    StatefulHeader.read,
    header => if (header.shards.isEmpty) "in one shard" else header.shards.mkString("by ", ", ", ""),
    _.state
  )

  private val schema = new StructType()
    .add("shard", IntegerType, nullable = false)
    .add("key", BinaryType, nullable = false)
    .add("value", BinaryType, nullable = false)

  def read(spark: SparkSession, checkpoint: String, operator: Int): DataFrame = {
    val state = OperatorState.locate(spark, checkpoint, operator, kind)
    val choice = StateChoice.named(state.header.state)
    val families = KeyedState.families(choice)
    val opener = state.opener(spark, choice, families)
    val conf = spark.sparkContext.broadcast(new SerializableConfiguration(spark.sessionState.newHadoopConf()))
    val rows = spark.sparkContext.parallelize(0 until state.partitions, state.partitions).mapPartitions { partitions =>
      partitions.flatMap { partition =>
        opener.look(partition, conf.value.value) { opened =>
          val records = opened.family(families.head).all()
          // All of a partition's, since the store closes behind them.
          try
            records
              .map(r => InternalRow(partition, r.key.getBinary(0), r.value.getBinary(0)): InternalRow)
              .toVector
          finally records.close()
        }
      }
    }
    spark.internalCreateDataFrame(rows, schema)
  }
}
