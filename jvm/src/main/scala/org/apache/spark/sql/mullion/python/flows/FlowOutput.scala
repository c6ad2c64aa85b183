package org.apache.spark.sql.mullion.python.flows

import java.util.zip.CRC32

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.unsafe.types.UTF8String

/** What a step gives to others, as rows like those of `bytewax/_run/chunks.py`. What goes through Python's steps first
  * is one row for Python.
  */
private[flows] final class FlowOutput(ports: Array[FlowProgram.Port], partition: Int) {
  import FlowOutput._

  private val held = mutable.LinkedHashMap.empty[(Int, Int), mutable.ArrayBuffer[Item]]
  private val forPython = mutable.ArrayBuffer.empty[Item]
  private val made = mutable.ArrayBuffer.empty[InternalRow]
  private var part = 0

  /** Takes what came of a batch of a key at once. */
  def give(key: UTF8String, place: Long, nowUs: Long, events: Seq[FlowEvent]): Unit = ports.indices.foreach { number =>
    val own = events.filter(_.port == number)
    if (own.nonEmpty) {
      val port = ports(number)
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
    val entries = held.getOrElseUpdate((target.step, shard), mutable.ArrayBuffer.empty)
    events.foreach { event =>
      val (name, item) =
        if (target.isStateful) (Item.Text(key), pair(event))
        else (Item.Nothing, Item.tuple(Item.Text(key), pair(event)))
      entries += Item.tuple(Item.Int(place), Item.Text(key), Item.Int(nowUs), name, item)
    }
  }

  private def pair(event: FlowEvent): Item = Item.tuple(Item.Int(event.window), event.item)

  /** Makes rows of what there is, if it is much: between keys. */
  def cut(): Unit = held.filterInPlace { case ((step, shard), entries) =>
    val isShort = entries.length < ItemsOfARow
    if (!isShort) put(step, shard, entries)
    isShort
  }

  private def put(step: Int, shard: Int, entries: mutable.ArrayBuffer[Item]): Unit = {
    val first = entries(0) match {
      case Item.Tuple(Array(Item.Int(place), _*)) => place
      case _                                      => 0L
    }
    made += InternalRow(step, shard, first, part, ItemWriter.write(entries.toArray))
    part += 1
  }

  /** All rows for other steps. */
  def rows(): Seq[InternalRow] = {
    held.foreach { case ((step, shard), entries) => put(step, shard, entries) }
    held.clear()
    made.toVector
  }

  /** The row for Python, if there is one. */
  def rowForPython(): Option[InternalRow] =
    Option.when(forPython.nonEmpty)(InternalRow(Events, partition % Shards, 0L, 0, ItemWriter.write(forPython.toArray)))
}

private[python] object FlowOutput {

  /** The target of a row with events for Python. */
  val Events: Int = -3

  /** The target of a row that names keys which are left to Python. */
  val Handed: Int = -4

  private val ItemsOfARow = 20000
  private val Shards = 64

  def shardOf(key: UTF8String): Int = {
    val sum = new CRC32
    sum.update(key.getBytes)
    (sum.getValue % Shards).toInt
  }
}
