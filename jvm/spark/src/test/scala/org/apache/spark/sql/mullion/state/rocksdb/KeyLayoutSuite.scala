package org.apache.spark.sql.mullion.state.rocksdb

import java.util.UUID

import scala.util.{Random, Using}

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.TemporaryFolder
import org.apache.spark.sql.mullion.state.PartitionOpener
import org.apache.spark.sql.mullion.state.record.{Family, FamilyScan, FamilySpec, RecordOrder}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.{MullionSuite, TestSeed}

/** Keys in RocksDB, in each layout that this Spark version reads: the one that it writes, and those of earlier
  * versions.
  */
class KeyLayoutSuite extends MullionSuite {
  import KeyLayoutSuite._

  for {
    layout <- KeyLayout.readable
    (name, types) <- Keys
    order <- Seq(RecordOrder.WithinKey, RecordOrder.ByLast, RecordOrder.ByFirst(1))
  } test(s"records by $name, kept $order with keys as ${layout.name}, come back in the order of their times") {
    val seed = TestSeed.value
    val random = new Random(seed)
    val records = new Kept(layout, types, order)
    try {
      var model = Map.empty[Seq[Any], Long]
      for (batch <- 1 to 3) records.run { family =>
        (1 to 60).foreach { step =>
          val key = records.anyKey(random)
          assertEquals(family.get(records.row(key)).copied.map(_.getLong(0)), model.get(key), s"seed $seed, step $step")
          val value = random.nextLong()
          if (!model.contains(key)) family.insert(records.row(key), valueRow(value))
          else if (random.nextBoolean()) family.update(records.row(key), valueRow(value))
          else family.remove(records.row(key))
          if (model.contains(key) && family.get(records.row(key)).isAbsent) model -= key else model += key -> value
        }
        val clue = s"seed $seed, batch $batch"
        assertEquals(Using.resource(family.all())(_.map(records.pair).toMap), model, clue)
        val keys = Seq.fill(5)(records.anyKey(random))
        family.expect(keys.map(records.row(_).copy()).toArray)
        assertEquals(
          keys.distinct.map(k => family.get(records.row(k)).copied.map(_.getLong(0))),
          keys.distinct.map(model.get),
          clue
        )
        if (order != RecordOrder.WithinKey) for (from <- Long.MinValue +: Seq.fill(5)(time(random))) {
          val scanned = Using.resource(family.scan(from))(_.map(records.pair).toSeq)
          val times = scanned.map { case (key, _) => records.timeOf(key) }
          assertEquals(times, times.sorted, s"$clue, from $from")
          assertEquals(
            scanned.toMap,
            model.filter { case (key, _) => records.timeOf(key) >= from },
            s"$clue, from $from"
          )
        }
        else
          for (key <- model.keys.map(_.init).toSeq.distinct) {
            val (one, other) = (time(random), time(random))
            val (from, until) = (Math.min(one, other), Math.max(one, other))
            val scanned = Using.resource(family.range(records.row(key :+ from).copy(), records.row(key :+ until)))(
              _.map(records.pair).toSeq
            )
            val expected = model.toSeq
              .filter { case (k, _) => k.init == key && records.timeOf(k) >= from && records.timeOf(k) < until }
              .sortBy { case (k, _) => records.timeOf(k) }
            assertEquals(scanned, expected, s"$clue, key $key from $from to $until")
          }
      }
    } finally records.close()
  }
}

object KeyLayoutSuite {
  private val Keys: Seq[(String, Seq[DataType])] =
    Seq("a number" -> Seq(LongType), "a text" -> Seq(StringType), "a text and a number" -> Seq(StringType, IntegerType))

  private val valueSchema = new StructType().add("value", LongType, nullable = false)

  private def valueRow(value: Long): UnsafeRow = {
    val row = UnsafeRow.createFromByteArray(16, 1)
    row.setLong(0, value)
    row
  }

  // Few, on both sides of 0, that differ in their last bytes, in their first, or in their sign.
  private def time(random: Random): Long =
    Seq(0L, 1L, 255L, 256L, -1L, -256L, 1L << 40, -(1L << 40), Long.MaxValue - 1, Long.MinValue + 1)(random.nextInt(10))

  /** A family in RocksDB, batch after batch; each reads the previous one's records. */
  private final class Kept(layout: KeyLayout, types: Seq[DataType], order: RecordOrder) {
    private val timeFirst = order == RecordOrder.ByFirst(1)
    private val columns = if (timeFirst) LongType +: types else types :+ LongType
    private val at = if (timeFirst) 0 else columns.length - 1
    private val spec = FamilySpec(
      "records",
      StructType(columns.zipWithIndex.map { case (of, i) => StructField(s"c$i", of, nullable = i != at) }),
      valueSchema,
      order
    )
    private val project = UnsafeProjection.create(columns.toArray)
    private val folder = TemporaryFolder.make()
    private var version = 0L
    private var versionId = Option.empty[String]

    def timeOf(key: Seq[Any]): Long = key(at).asInstanceOf[Long]

    def run(work: Family => Unit): Unit = {
      val hadoop = new Configuration()
      hadoop.set("sql.streaming.runId", UUID.randomUUID().toString)
      val conf = new StateStoreConf(PartitionOpener.confOf(new SQLConf))
      val id = StateStoreProviderId(StateStoreId(folder.toUri.toString, 0, 0), UUID.randomUUID())
      val provider = StateStoreProvider
        .createAndInit(id, spec.key, spec.value, layout.encoder(spec), true, conf, hadoop, false, None)
      try {
        val partition = new RocksDbPartition(provider.getStore(version, versionId), spec, Nil, layout)
        try {
          work(partition.family(spec))
          partition.commit()
          versionId = partition.committedId
        } catch { case e: Throwable => partition.store.abort(); throw e }
        version += 1
      } finally provider.close()
    }

    def anyKey(random: Random): Seq[Any] = {
      val key = types.map {
        case LongType    => if (random.nextInt(4) == 0) None.orNull else random.nextInt(3).toLong - 1
        case IntegerType => random.nextInt(3)
        case _           => UTF8String.fromString("alike" * random.nextInt(3))
      }
      if (timeFirst) time(random) +: key else key :+ time(random)
    }

    def row(key: Seq[Any]): UnsafeRow = project(new GenericInternalRow(key.toArray[Any]))

    def pair(of: FamilyScan): (Seq[Any], Long) = {
      val on = of.key.untilNextCall
      val key = columns.zipWithIndex.map {
        case (_, i) if on.isNullAt(i) => None.orNull
        case (StringType, i)          => on.getUTF8String(i).clone()
        case (dataType, i)            => on.get(i, dataType)
      }
      key -> of.value.getLong(0)
    }

    def close(): Unit = TemporaryFolder.delete(folder)
  }
}
