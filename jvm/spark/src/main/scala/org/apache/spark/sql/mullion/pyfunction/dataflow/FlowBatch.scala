package org.apache.spark.sql.mullion.pyfunction.dataflow

import scala.collection.mutable

import org.apache.spark.sql.mullion.pyfunction.expression.{Columns, Untranslatable, Value}
import org.apache.spark.unsafe.types.UTF8String

/** The entries of a shard, or of one of its keys, in the order of what they came of: of which rows each is a value, and
  * which one.
  */
private[dataflow] final class FlowBatch(chunks: Array[FlowBatch.Chunk], chunkOf: Array[Int], at: Array[Int]) {
  import FlowBatch._

  def length: Int = at.length

  def rowsOf(entry: Int): Rows = chunks(chunkOf(entry)).rows

  def rowOf(entry: Int): Int = at(entry)

  def placeOf(entry: Int): Long = chunks(chunkOf(entry)).places(at(entry))

  def nowOf(entry: Int): Long = chunks(chunkOf(entry)).nows(at(entry))

  /** The time that an entry's value has by what gives times; odd where only Python computes it. */
  def timeOf(entry: Int): Long = chunks(chunkOf(entry)).timeOf(at(entry))

  /** True if what follows came of something else. */
  def isLastOfPlace(entry: Int): Boolean = entry + 1 == length || placeOf(entry + 1) != placeOf(entry)

  /** Some of the entries. */
  def of(entries: Array[Int]): FlowBatch = new FlowBatch(chunks, picked(chunkOf, entries), picked(at, entries))

  /** The entries of each key, in the order in which keys came. */
  def ofKeys(): Seq[(UTF8String, Array[Int])] = {
    val numbers = mutable.HashMap.empty[UTF8String, Int]
    val keys = mutable.ArrayBuffer.empty[UTF8String]
    val known = chunks.map(chunk => Array.fill(chunk.keys.apart.length)(-1))
    val keyOf = new Array[Int](length)
    var i = 0
    while (i < length) {
      val chunk = chunkOf(i)
      val text = chunks(chunk).keys.of(at(i))
      if (known(chunk)(text) < 0) {
        val key = chunks(chunk).keys.apart(text)
        known(chunk)(text) = numbers.getOrElseUpdate(
          key, {
            keys += key
            keys.length - 1
          }
        )
      }
      keyOf(i) = known(chunk)(text)
      i += 1
    }
    keys.toSeq.zip(placesOf(keyOf, keys.length))
  }
}

private[dataflow] object FlowBatch {

  /** What one row held: of each value what it came of, its system time, and its key. */
  final class Chunk(
      val places: Array[Long],
      val of: Columns.Texts,
      val nows: Array[Long],
      val keys: Columns.Texts,
      val rows: Rows,
      times: Option[OfRow]
  ) {
    // One after another, as they lie: a key's are far apart.
    private lazy val timed = times.map(new Times(_, rows, places.length))

    def timeOf(row: Int): Long = timed.getOrElse(throw Untranslatable).of(row)

    /** True if its values are in order, and come of no step with state. */
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
        val found = function.call(rows, row)
        us(row) = found.long
        isKnown(row) = found.kind == Value.Time
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

  /** Numbers from an array, by where they stand in it. */
  def picked(from: Array[Int], places: Array[Int]): Array[Int] = {
    val made = new Array[Int](places.length)
    var i = 0
    while (i < made.length) {
      made(i) = from(places(i))
      i += 1
    }
    made
  }

  /** The places of an array by the numbers below `count` that it has; of those that are equal in their order. */
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
    val made = new Array[Int](numbers.length)
    i = 0
    while (i < numbers.length) {
      made(next(numbers(i))) = i
      next(numbers(i)) += 1
      i += 1
    }
    made
  }

  /** Where each number below `count` stands in an array. */
  def placesOf(numbers: Array[Int], count: Int): Array[Array[Int]] = {
    val lengths = new Array[Int](count)
    var i = 0
    while (i < numbers.length) {
      lengths(numbers(i)) += 1
      i += 1
    }
    val made = lengths.map(new Array[Int](_))
    i = numbers.length - 1
    while (i >= 0) {
      val number = numbers(i)
      lengths(number) -= 1
      made(number)(lengths(number)) = i
      i -= 1
    }
    made
  }

  /** @param times
    *   what gives values their times
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

  /** True if it is plain that they are: what comes straight from the inputs always is. */
  private def areInOrder(chunks: Array[Chunk]): Boolean = {
    val filled = chunks.filter(_.places.nonEmpty)
    filled.forall(_.isOfInputs) &&
    (1 until filled.length).forall(i => filled(i - 1).places.last <= filled(i).places.head)
  }
}
