package org.apache.spark.sql.mullion.pyfunction.dataflow

import scala.collection.mutable

import org.apache.spark.sql.mullion.pyfunction.expression.{Columns, Untranslatable, Value}
import org.apache.spark.unsafe.types.UTF8String

/** The entries of a shard or of one key, in the order of their origins. An entry is a row of a chunk. */
private[dataflow] final class FlowBatch(chunks: Array[FlowBatch.Chunk], chunkOf: Array[Int], at: Array[Int]) {
  import FlowBatch._

  def length: Int = at.length

  def rowsOf(entry: Int): Rows = chunks(chunkOf(entry)).rows

  def rowOf(entry: Int): Int = at(entry)

  def placeOf(entry: Int): Long = chunks(chunkOf(entry)).places(at(entry))

  def nowOf(entry: Int): Long = chunks(chunkOf(entry)).nows(at(entry))

  /** The time of an entry's value. Throws [[Untranslatable]] if only Python can compute it. */
  def timeOf(entry: Int): Long = chunks(chunkOf(entry)).timeOf(at(entry))

  /** True if the next entry has another origin. */
  def isLastOfPlace(entry: Int): Boolean = entry + 1 == length || placeOf(entry + 1) != placeOf(entry)

  /** Selects entries by index. */
  def of(entries: Array[Int]): FlowBatch = new FlowBatch(chunks, picked(chunkOf, entries), picked(at, entries))

  /** The entries of each key, in the order of the first entry of each key. */
  def ofKeys(): Seq[(UTF8String, Array[Int])] = {
    val numbers = mutable.HashMap.empty[UTF8String, Int]
    val keys = mutable.ArrayBuffer.empty[UTF8String]
    val numberOf = chunks.map(chunk => Array.fill(chunk.keys.apart.length)(-1))
    val keyOf = new Array[Int](length)
    var i = 0
    while (i < length) {
      val chunk = chunkOf(i)
      val text = chunks(chunk).keys.of(at(i))
      if (numberOf(chunk)(text) < 0) {
        val key = chunks(chunk).keys.apart(text)
        numberOf(chunk)(text) = numbers.getOrElseUpdate(
          key, {
            keys += key
            keys.length - 1
          }
        )
      }
      keyOf(i) = numberOf(chunk)(text)
      i += 1
    }
    keys.toSeq.zip(placesOf(keyOf, keys.length))
  }
}

private[dataflow] object FlowBatch {

  /** A decoded row: the origin, the system time and the key of each value. */
  final class Chunk(
      val places: Array[Long],
      val of: Columns.Texts,
      val nows: Array[Long],
      val keys: Columns.Texts,
      val rows: Rows,
      times: Option[OfRow]
  ) {
    // Computed for all rows at once, in memory order. The rows of one key are far apart.
    private lazy val timed = times.map(new Times(_, rows, places.length))

    def timeOf(row: Int): Long = timed.getOrElse(throw Untranslatable).of(row)

    /** True if the values are sorted and have passed no stateful step. */
    def isOfInputs: Boolean = of.apart.forall(_.numBytes == 0) && {
      var i = 1
      while (i < places.length && places(i - 1) <= places(i)) i += 1
      i >= places.length
    }
  }

  private final class Times(function: OfRow, rows: Rows, count: Int) {
    private val us = new Array[Long](count)
    private val isKnown = new Array[Boolean](count)

    private def note(row: Int): Unit =
      try {
        val time = function.call(rows, row)
        us(row) = time.long
        isKnown(row) = time.kind == Value.Time
      } catch { case Untranslatable => () }

    {
      var row = 0
      while (row < count) {
        note(row)
        row += 1
      }
    }

    def of(row: Int): Long = if (isKnown(row)) us(row) else throw Untranslatable
  }

  /** The elements of an array at the given indices. */
  def picked(from: Array[Int], places: Array[Int]): Array[Int] = {
    val result = new Array[Int](places.length)
    var i = 0
    while (i < result.length) {
      result(i) = from(places(i))
      i += 1
    }
    result
  }

  /** The indices of an array, sorted by its numbers, which are below `count`. The sort is stable. */
  def sorted(numbers: Array[Int], count: Int): Array[Int] = {
    val next = new Array[Int](count + 1)
    var i = 0
    while (i < numbers.length) {
      next(numbers(i) + 1) += 1
      i += 1
    }
    i = 0
    while (i < count) {
      next(i + 1) += next(i)
      i += 1
    }
    val result = new Array[Int](numbers.length)
    i = 0
    while (i < numbers.length) {
      result(next(numbers(i))) = i
      next(numbers(i)) += 1
      i += 1
    }
    result
  }

  /** The indices of each number below `count` in an array. */
  def placesOf(numbers: Array[Int], count: Int): Array[Array[Int]] = {
    val lengths = new Array[Int](count)
    var i = 0
    while (i < numbers.length) {
      lengths(numbers(i)) += 1
      i += 1
    }
    val result = lengths.map(new Array[Int](_))
    i = numbers.length - 1
    while (i >= 0) {
      val number = numbers(i)
      lengths(number) -= 1
      result(number)(lengths(number)) = i
      i -= 1
    }
    result
  }

  /** @param times
    *   the function that computes the times of values
    */
  def apply(read: Seq[(Int, Columns)], layouts: Layouts, times: Option[OfRow]): FlowBatch = {
    val chunks = read.map {
      case (count, columns: Columns.Tuples) =>
        columns.parts match {
          case Array(places: Columns.Ints, of, nows: Columns.Ints, keys, values) =>
            val all = Array.range(0, count)
            def texts(of: Columns) = Columns.asTexts(of, all, count)
            new Chunk(places.values, texts(of), nows.values, texts(keys), layouts.rows(values), times)
          case _ => throw Untranslatable
        }
      case _ => throw Untranslatable
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
    def compare(one: Int, other: Int) = {
      val (first, second) = (chunks(chunkOf(one)), chunks(chunkOf(other)))
      val places = java.lang.Long.compare(first.places(at(one)), second.places(at(other)))
      if (places != 0) places
      else first.of.apart(first.of.of(at(one))).binaryCompare(second.of.apart(second.of.of(at(other))))
    }
    if (areInOrder(chunks) || (1 until count).forall(i => compare(i - 1, i) <= 0)) new FlowBatch(chunks, chunkOf, at)
    else {
      val order = Array.range(0, count).sortWith(compare(_, _) < 0)
      new FlowBatch(chunks, picked(chunkOf, order), picked(at, order))
    }
  }

  /** A cheap test, which is true for all chunks that come directly from the inputs. */
  private def areInOrder(chunks: Array[Chunk]): Boolean = {
    val filled = chunks.filter(_.places.nonEmpty)
    filled.forall(_.isOfInputs) &&
    (1 until filled.length).forall(i => filled(i - 1).places.last <= filled(i).places.head)
  }
}
