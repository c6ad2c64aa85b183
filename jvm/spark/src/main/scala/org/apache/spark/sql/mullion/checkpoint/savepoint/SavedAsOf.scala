package org.apache.spark.sql.mullion.checkpoint.savepoint

import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection}
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.mullion.checkpoint.layout.OperatorState
import org.apache.spark.sql.mullion.operator.asof.{AsOfExec, AsOfHeader, AsOfState}
import org.apache.spark.sql.mullion.operator.engine.PartitionTotals
import org.apache.spark.sql.mullion.state.PartitionOpener
import org.apache.spark.sql.mullion.state.record.{FamilySpec, StatePartition}
import org.apache.spark.util.SerializableConfiguration

import dev.mullion.MullionException

/** An as-of join. Each record belongs to the partition of its key's rows in Spark's exchange. */
private[checkpoint] final case class SavedAsOf(at: OperatorState[AsOfHeader]) extends SavedOperator {
  import SavedAsOf._

  override def require(checkpoint: String, partitions: Int): Unit =
    if (at.header.format != AsOfHeader.currentFormat)
      throw MullionException.incompatibleState(
        s"Operator ${at.operator} of $checkpoint is an as-of join, whose state format is [${at.header.format}]; this version of " +
          s"Mullion writes [${AsOfHeader.currentFormat}]. Nothing was written. Write the savepoint with the version that runs " +
          "the query."
      )

  override def write(spark: SparkSession, checkpoint: String, to: NewState): Seq[Option[String]] = {
    val ids =
      to.write(spark, AsOfExec.operatorName, at.header.state.families)(copy(spark, checkpoint, _, to.partitions))
    AsOfHeader.write(to.root, spark.sessionState.newHadoopConf(), at.header)
    ids
  }

  private def copy(
      spark: SparkSession,
      checkpoint: String,
      opener: PartitionOpener,
      partitions: Int
  ): Seq[StateCopy.Written] = {
    val (state, before, where) = (at.header.state, at.partitions, s"$checkpoint (operator ${at.operator})")
    val totals = state.families.indexOf(PartitionTotals.family)
    val reader = at.opener(spark, state.families)
    val conf = spark.sparkContext.broadcast(new SerializableConfiguration(spark.sessionState.newHadoopConf()))
    val records = spark.sparkContext.parallelize(0 until before, before).mapPartitionsWithIndex { (index, _) =>
      val numbers = state.families.take(totals).map(numbersOf(state, _, before, partitions))
      reader.records(index, conf.value.value).filter(_._1 != totals).map { case (family, key, value) =>
        val of = numbers(family)(key)
        if (of.getInt(0) != index) throw StateCopy.misplaced(where, index, of.getInt(0))
        of.getInt(1) -> StateCopy.packed(family, key, value)
      }
    }
    StateCopy.written(StateCopy.byNumber(records, partitions), opener, conf) { (index, partition, records) =>
      StateCopy.fill(partition, state.families, records)
      val (waiting, count) = (leftRows(state, partition), partition.rowsAdded)
      new PartitionTotals(partition).add(waiting, count)
      partition.commit()
      StateCopy.Written(index, StateCopy.versionIdOf(partition), waiting, count)
    }
  }
}

private[checkpoint] object SavedAsOf {

  def apply(spark: SparkSession, checkpoint: String, operator: Int): SavedAsOf = SavedAsOf(
    OperatorState.locate(
      spark,
      checkpoint,
      operator,
      OperatorState.Kind[AsOfHeader](
        "as-of join",
        "as-of joins",
        (root, hadoopConf, _) => AsOfHeader.read(root, hadoopConf),
        _.direction
      )
    )
  )

  /** The previous and the new partition of a record, over its key. */
  private def numbersOf(state: AsOfState, family: FamilySpec, before: Int, after: Int): UnsafeProjection = {
    val keys = state.keys.zipWithIndex.map { case (of, i) =>
      BoundReference(family.key.fieldIndex(AsOfState.keyName(i)), of, nullable = true)
    }
    UnsafeProjection.create(Seq(before, after).map(HashPartitioning(keys, _).partitionIdExpression))
  }

  /** The number of left rows that wait. */
  private def leftRows(state: AsOfState, partition: StatePartition): Long = {
    val scan = partition.family(state.waiting).all()
    var count = 0L
    try while (scan.next()) if (!scan.value.untilNextCall.isNullAt(0)) count += 1
    finally scan.close()
    count
  }
}
