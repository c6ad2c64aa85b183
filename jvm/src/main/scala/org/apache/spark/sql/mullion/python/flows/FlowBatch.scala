package org.apache.spark.sql.mullion.python.flows

import scala.collection.mutable

import org.apache.spark.sql.mullion.python.folds.Odd
import org.apache.spark.unsafe.types.UTF8String

/** The entries of a shard, or of one of its keys, in the order of what they came of: of which rows each is a value, and
  * which one.
  */
private[flows] final class FlowBatch(chunks: Array[FlowBatch.Chunk], chunkOf: Array[Int], at: Array[Int]) {
  def length: Int = at.length

  def rowsOf(entry: Int): Rows = chunks(chunkOf(entry)).rows

  def rowOf(entry: Int): Int = at(entry)

  def placeOf(entry: Int): Long = chunks(chunkOf(entry)).places(at(entry))

  def nowOf(entry: Int): Long = chunks(chunkOf(entry)).nows(at(entry))

  /** Some of the entries. */
  def of(entries: Array[Int]): FlowBatch = new FlowBatch(chunks, entries.map(chunkOf(_)), entries.map(at(_)))

  /** The entries of each key, in the order in which keys came. */
  def ofKeys(): Seq[(UTF8String, Array[Int])] = {
    val numbers = mutable.HashMap.empty[UTF8String, Int]
    val keys = mutable.ArrayBuffer.empty[UTF8String]
    val entries = mutable.ArrayBuffer.empty[mutable.ArrayBuilder.ofInt]
    val known = chunks.map(chunk => Array.fill(chunk.keys.apart.length)(-1))
    var i = 0
    while (i < length) {
      val chunk = chunkOf(i)
      val text = chunks(chunk).keys.of(at(i))
      if (known(chunk)(text) < 0) {
        val key = chunks(chunk).keys.apart(text)
        known(chunk)(text) = numbers.getOrElseUpdate(
          key, {
            keys += key
            entries += new mutable.ArrayBuilder.ofInt
            keys.length - 1
          }
        )
      }
      entries(known(chunk)(text)) += i
      i += 1
    }
    keys.indices.map(number => keys(number) -> entries(number).result())
  }
}

private[flows] object FlowBatch {

  /** What one row held: of each value what it came of, its system time, and its key. */
  final class Chunk(
      val places: Array[Long],
      val of: Columns.Texts,
      val nows: Array[Long],
      val keys: Columns.Texts,
      val rows: Rows
  )

  def apply(read: Seq[(Int, Columns)], layouts: Layouts): FlowBatch = {
    val chunks = read.map {
      case (_, columns: Columns.Tuples) =>
        columns.parts match {
          case Array(
                places: Columns.Ints,
                of: Columns.Texts,
                nows: Columns.Ints,
                keys: Columns.Texts,
                values
              ) =>
            new Chunk(places.values, of, nows.values, keys, layouts.rows(values))
          case _ => throw Odd
        }
      case _ => throw Odd
    }.toArray
    val count = chunks.map(_.places.length).sum
    val (chunkOf, at) = (new Array[Int](count), new Array[Int](count))
    var entry = 0
    chunks.indices.foreach { chunk =>
      val length = chunks(chunk).places.length
      var row = 0
      while (row < length) {
        chunkOf(entry) = chunk
        at(entry) = row
        entry += 1
        row += 1
      }
    }
    def place(entry: Int) = chunks(chunkOf(entry)).places(at(entry))
    def origin(entry: Int) = {
      val chunk = chunks(chunkOf(entry))
      chunk.of.apart(chunk.of.of(at(entry)))
    }
    def compare(one: Int, other: Int) = {
      val places = java.lang.Long.compare(place(one), place(other))
      if (places != 0) places else origin(one).binaryCompare(origin(other))
    }
    var inOrder = 1
    while (inOrder < count && compare(inOrder - 1, inOrder) <= 0) inOrder += 1
    if (inOrder >= count) new FlowBatch(chunks, chunkOf, at)
    else {
      val order = Array.range(0, at.length).sortWith(compare(_, _) < 0)
      new FlowBatch(chunks, order.map(chunkOf(_)), order.map(at(_)))
    }
  }
}
