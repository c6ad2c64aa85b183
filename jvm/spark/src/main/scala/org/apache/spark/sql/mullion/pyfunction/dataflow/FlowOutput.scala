package org.apache.spark.sql.mullion.pyfunction.dataflow

import java.util.zip.CRC32

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.mullion.pyfunction.expression.{Columns, Item, ItemWriter}
import org.apache.spark.unsafe.types.UTF8String

/** Collects the output of a step in rows like those of `bytewax/_query/chunks.py`. One row has all output for Python's
  * steps.
  */
private[dataflow] final class FlowOutput(ports: Array[FlowProgram.Port], partition: Int) {
  import FlowOutput._

  private val buffers = mutable.LinkedHashMap.empty[(Int, Int), Entries]
  private val forPython = mutable.ArrayBuffer.empty[Item]
  private val output = mutable.ArrayBuffer.empty[InternalRow]
  private var part = 0

  /** Adds the events of one source batch of a key. */
  def give(key: UTF8String, place: Long, nowUs: Long, events: Seq[FlowEvent]): Unit = ports.indices.foreach { number =>
    val port = ports(number)
    if (port.isWanted && events.exists(_.port == number)) {
      val own = events.filter(_.port == number)
      port.targets.foreach(give(_, key, place, nowUs, own))
      if (port.python) {
        val items = own.map[Item](event => Item.tuple(Item.Text(key), pair(event)))
        forPython += Item.tuple(
          Item.Int(place),
          Item.Text(key),
          Item.Int(nowUs),
          Item.Int(number.toLong),
          Item.Many(items.toArray)
        )
      }
    }
  }

  private def give(
      target: FlowProgram.Target,
      key: UTF8String,
      place: Long,
      nowUs: Long,
      events: Seq[FlowEvent]
  ): Unit = {
    val shard = if (target.isStateful) shardOf(key) else partition % Shards
    val entries = buffers.getOrElseUpdate((target.step, shard), new Entries(target.isStateful))
    entries.add(key, place, nowUs, events)
  }

  private def pair(event: FlowEvent): Item = Item.tuple(Item.Int(event.window), event.item)

  /** Flushes buffers that reached the size limit. Call it only between keys. */
  def cut(): Unit = if (buffers.valuesIterator.exists(_.length >= ItemsOfARow)) buffers.filterInPlace {
    case ((step, shard), entries) =>
      val isShort = entries.length < ItemsOfARow
      if (!isShort) put(step, shard, entries)
      isShort
  }

  private def put(step: Int, shard: Int, entries: Entries): Unit = {
    val (first, data) = entries.written()
    output += InternalRow(step, shard, first, part, data)
    part += 1
  }

  /** All rows for other steps. */
  def rows(): Seq[InternalRow] = {
    buffers.foreach { case ((step, shard), entries) => put(step, shard, entries) }
    buffers.clear()
    output.toVector
  }

  /** The row for Python, if there is one. */
  def rowForPython(): Option[InternalRow] =
    Option.when(forPython.nonEmpty)(InternalRow(Events, partition % Shards, 0L, 0, ItemWriter.write(forPython.toArray)))
}

private[pyfunction] object FlowOutput {

  /** The target of a row with events for Python. */
  val Events: Int = -3

  /** The target of a row with the keys that Python has to process. */
  val Handed: Int = -4

  private val ItemsOfARow = 20000
  private val Shards = 64

  def shardOf(key: UTF8String): Int = {
    val sum = new CRC32
    sum.update(key.getBytes)
    (sum.getValue % Shards).toInt
  }

  /** The buffer of one row, in columns. */
  private final class Entries(isStateful: Boolean) {
    private val places = mutable.ArrayBuilder.make[Long]
    private val nows = mutable.ArrayBuilder.make[Long]
    private val windows = mutable.ArrayBuilder.make[Long]
    private val keyOf = mutable.ArrayBuilder.make[Int]
    private val items = mutable.ArrayBuilder.make[Item]
    private val keys = mutable.ArrayBuffer.empty[UTF8String]
    private val numbers = mutable.HashMap.empty[UTF8String, Int]

    def length: Int = places.length

    def add(key: UTF8String, place: Long, nowUs: Long, events: Seq[FlowEvent]): Unit = {
      if (keys.isEmpty || keys.last != key)
        numbers.getOrElseUpdate(
          key, {
            keys += key
            keys.length - 1
          }
        )
      val number = if (keys.last == key) keys.length - 1 else numbers(key)
      events.foreach { event =>
        places += place
        nows += nowUs
        windows += event.window
        keyOf += number
        items += event.item
      }
    }

    /** The smallest place, and the row's data. */
    def written(): (Long, Array[Byte]) = {
      val of = places.result()
      val texts = new Columns.Texts(keys.toArray, keyOf.result())
      val pairs =
        new Columns.Tuples(
          Array(texts, new Columns.Tuples(Array(new Columns.Ints(windows.result()), new Columns.Whole(items.result()))))
        )
      val (name, value) = if (isStateful) (texts, pairs.parts(1)) else (Columns.Nothings, pairs)
      val columns =
        new Columns.Tuples(Array(new Columns.Ints(of), texts, new Columns.Ints(nows.result()), name, value))
      val order = inOrder(of, texts)
      (of(order(0)), ItemWriter.write(columns, order))
    }
  }

  /** The indices of entries, sorted by place and key, as sinks write them. The sort is stable. */
  private def inOrder(places: Array[Long], keys: Columns.Texts): Array[Int] = {
    val ofKey = new Array[Int](keys.apart.length)
    keys.apart.indices
      .sortWith((one, other) => keys.apart(one).binaryCompare(keys.apart(other)) < 0)
      .zipWithIndex
      .foreach { case (key, rank) => ofKey(key) = rank }
    val apart = sortedApart(places)
    val (keyRanks, placeRanks) = (new Array[Int](places.length), new Array[Int](places.length))
    var i = 0
    while (i < places.length) {
      keyRanks(i) = ofKey(keys.of(i))
      placeRanks(i) = java.util.Arrays.binarySearch(apart, places(i))
      i += 1
    }
    // Sorts by the minor key first, because the second sort is stable.
    val byKey = FlowBatch.sorted(keyRanks, ofKey.length)
    FlowBatch.picked(byKey, FlowBatch.sorted(FlowBatch.picked(placeRanks, byKey), apart.length))
  }

  private def sortedApart(numbers: Array[Long]): Array[Long] = {
    val sorted = numbers.clone
    java.util.Arrays.sort(sorted)
    var (count, i) = (0, 0)
    while (i < sorted.length) {
      if (i == 0 || sorted(i) != sorted(i - 1)) {
        sorted(count) = sorted(i)
        count += 1
      }
      i += 1
    }
    java.util.Arrays.copyOf(sorted, count)
  }
}
