package org.apache.spark.sql.mullion.pyfunction.dataflow

import scala.collection.mutable

import org.json4s._
import org.json4s.jackson.JsonMethods.parse

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.mullion.pyfunction.agents.FoldProgram
import org.apache.spark.sql.mullion.pyfunction.expression.{
  Columns,
  Item,
  ItemReader,
  ItemWriter,
  Layout,
  Untranslatable,
  Value
}
import org.apache.spark.unsafe.types.UTF8String

/** The stateless steps behind the inputs of a dataflow, in the JSON of `bytewax/_translation/window_steps.py`:
  *
  * {{{
  *   {"0": [{"steps": [["key", function], ["filter_value", function]], "target": 3, "stateful": true}, ...], ...}
  *
  *   step   ["map" | "filter" | "filter_not" | "map_value" | "filter_value" | "key", function]  ["key_rm"]  ["json"]
  * }}}
  *
  * For the number of an input: each path to a stateful step, a sink or an inspector, in the order in which Python takes
  * them.
  */
final case class InputsProgram(json: String) {
  @transient private[dataflow] lazy val ways: Map[Long, Seq[InputsProgram.Way]] = parse(json) match {
    case JObject(fields) =>
      fields.map { case (input, ways) =>
        input.toLong -> FoldProgram.list(ways).map { way =>
          InputsProgram.Way(
            FoldProgram.list(way \ "steps"),
            FoldProgram.integer(way \ "target").toInt,
            way \ "stateful" == JBool(true)
          )
        }
      }.toMap
    case other => throw new IllegalArgumentException(s"$other is not a program of inputs")
  }
}

private[pyfunction] object InputsProgram {
  private[dataflow] final case class Way(steps: List[JValue], target: Int, isStateful: Boolean)
}

/** Runs the steps behind inputs over entries of the log of inputs (`bytewax/_log/log.py`). It processes an entry
  * completely or not at all.
  */
private[pyfunction] final class FlowInputs(program: InputsProgram) {
  import FlowInputs._

  private val layouts = new Layouts
  private val ways = program.ways.map { case (input, all) => input -> all.map(new Steps(_, layouts)) }

  /** The rows of an entry; `None` if Python has to process it. */
  def over(number: Long, entry: Array[Byte]): Option[Seq[InternalRow]] =
    try Some(rows(number, entry))
    catch { case Untranslatable => None }

  private def rows(number: Long, entry: Array[Byte]): Seq[InternalRow] = {
    val classes = java.nio.ByteBuffer.wrap(entry).getInt
    val parts = ItemReader.read(java.util.Arrays.copyOfRange(entry, 4 + classes, entry.length))._2 match {
      case tuples: Columns.Tuples if tuples.parts.length >= 7 => tuples.parts
      case _                                                  => throw Untranslatable
    }
    val now = long(parts(0).item(0))
    val task = (number % Shards).toInt
    val output = mutable.ArrayBuffer.empty[InternalRow]
    def push(input: Long, items: Columns, places: Array[Long], rows: Array[Int]): Unit = {
      val total = places.length
      val origin = Array[Columns](new Columns.Ints(places), always(Empty, total), always(now, total))
      ways.getOrElse(input, throw Untranslatable).foreach { way =>
        val (columns, kept) = way.over(items, rows, total)
        if (kept.nonEmpty) write(way, columns, kept, origin, task, output)
      }
    }
    ofItems(parts, push)
    if (parts.length > 7) many(parts(7).item(0)).foreach(ofRange(_, push))
    val (before, ended) = (numbers(parts(5).item(0)), numbers(parts(6).item(0)))
    if (before.toSet != ended.toSet) {
      val ends = ItemWriter.writeOne(Item.tuple(list(before), list(ended)))
      (0 until Shards).foreach(shard => output += InternalRow(End, shard, number, 0, ends))
    }
    output += InternalRow(Read, task, number, 0, Array.emptyByteArray)
    output.toVector
  }

  /** Pushes the items of an entry. */
  private def ofItems(parts: Array[Columns], push: (Long, Columns, Array[Long], Array[Int]) => Unit): Unit = {
    val inputs = many(parts(1).item(0)).map(long)
    val batches = many(parts(2).item(0)).map {
      case Item.Tuple(Array(Item.Int(place), Item.Int(count))) => (place, count.toInt)
      case _                                                   => throw Untranslatable
    }
    val items = parts(3) match {
      case lists: Columns.Lists => lists.flat
      case _                    => throw Untranslatable
    }
    val total = batches.map(_._2).sum
    val places = new Array[Long](total)
    val apart = inputs.distinct
    val inputOf = new Array[Int](total)
    var at = 0
    inputs.indices.foreach { batch =>
      val (place, count) = batches(batch)
      java.util.Arrays.fill(places, at, at + count, place << BatchBits)
      java.util.Arrays.fill(inputOf, at, at + count, apart.indexOf(inputs(batch)))
      at += count
    }
    apart.zip(FlowBatch.placesOf(inputOf, apart.length)).foreach { case (input, rows) =>
      push(input, items, places, rows)
    }
  }

  /** Pushes the lines of a file that an entry refers to. */
  private def ofRange(range: Item, push: (Long, Columns, Array[Long], Array[Int]) => Unit): Unit = range match {
    case Item.Tuple(
          Array(
            Item.Int(input),
            Item.Text(path),
            Item.Int(from),
            Item.Int(until),
            Item.Int(lines),
            Item.Text(delimiter),
            Item.Many(names),
            Item.Int(batchSize),
            Item.Int(first),
            Item.Int(stride)
          )
        ) =>
      val columnNames = names.map { case Item.Text(name) => name.toString; case _ => throw Untranslatable }
      val items = FileRanges.items(path.toString, from, until, lines.toInt, delimiter.toString, columnNames)
      val places = new Array[Long](lines.toInt)
      var i = 0
      while (i < places.length) {
        places(i) = (first + i / batchSize * stride) << BatchBits
        i += 1
      }
      push(input, items, places, Array.range(0, places.length))
    case _ => throw Untranslatable
  }

  private def write(
      way: Steps,
      columns: Columns,
      kept: Array[Int],
      origin: Array[Columns],
      task: Int,
      output: mutable.ArrayBuffer[InternalRow]
  ): Unit = {
    def put(shard: Int, rows: Array[Int], key: Columns, value: Columns): Unit = {
      val entries = new Columns.Tuples(origin :+ key :+ value)
      output += InternalRow(
        way.target,
        shard,
        long(origin(0).item(rows(0))),
        output.length,
        ItemWriter.write(entries, rows)
      )
    }
    if (!way.isStateful) put(task, kept, Columns.Nothings, columns)
    else
      columns match {
        case pairs: Columns.Tuples if pairs.parts.length == 2 =>
          val keys = Columns.asTexts(pairs.parts(0), kept, kept.last + 1)
          val shards = keys.apart.map(FlowOutput.shardOf)
          val shardOf = new Array[Int](kept.length)
          var i = 0
          while (i < kept.length) {
            shardOf(i) = shards(keys.of(kept(i)))
            i += 1
          }
          FlowBatch.placesOf(shardOf, Shards).zipWithIndex.foreach { case (places, shard) =>
            if (places.nonEmpty) put(shard, FlowBatch.picked(kept, places), keys, pairs.parts(1))
          }
        case _ => throw Untranslatable
      }
  }
}

private[pyfunction] object FlowInputs {
  private val BatchBits = 2
  private val Shards = 64
  private val End = -1
  private val Read = -2
  private val Empty = UTF8String.EMPTY_UTF8

  private def always(text: UTF8String, count: Int): Columns = new Columns.Texts(Array(text), new Array[Int](count))

  private def always(number: Long, count: Int): Columns = {
    val array = new Array[Long](count)
    java.util.Arrays.fill(array, number)
    new Columns.Ints(array)
  }

  private def long(of: Item): Long = of match {
    case Item.Int(held) => held
    case _              => throw Untranslatable
  }

  private def many(of: Item): Array[Item] = of match {
    case Item.Many(items) => items
    case _                => throw Untranslatable
  }

  private def numbers(of: Item): Array[Long] = of match {
    case Item.Numbers(held) => held.sorted
    case _                  => throw Untranslatable
  }

  private def list(of: Array[Long]): Item = Item.Many(of.map[Item](Item.Int(_)))

  /** Runs the steps of one path over the items of an entry. */
  private final class Steps(way: InputsProgram.Way, layouts: Layouts) {
    def target: Int = way.target

    def isStateful: Boolean = way.isStateful

    private val steps = way.steps.map(step =>
      FoldProgram.list(step) match {
        case Seq(JString(name), function) => (name, Some(new FunctionReader(function)))
        case Seq(JString(name))           => (name, None)
        case _                            => throw new IllegalArgumentException(s"$step is no step")
      }
    )

    /** The mapped items, and the rows that the filters keep. */
    def over(items: Columns, rows: Array[Int], total: Int): (Columns, Array[Int]) =
      steps.foldLeft((items, rows)) {
        case ((columns, kept), ("map", Some(function)))    => (mapped(function, columns, kept, total), kept)
        case ((columns, kept), ("filter", Some(function))) => (columns, filtered(function, columns, kept, is = true))
        case ((columns, kept), ("filter_not", Some(function))) =>
          (columns, filtered(function, columns, kept, is = false))
        case ((columns, kept), ("key", Some(function))) =>
          val keys = Columns.asTexts(mapped(function, columns, kept, total), kept, total)
          (new Columns.Tuples(Array(keys, columns)), kept)
        case ((columns, kept), ("map_value", Some(function))) =>
          val (key, value) = pair(columns)
          (new Columns.Tuples(Array(key, mapped(function, value, kept, total))), kept)
        case ((columns, kept), ("filter_value", Some(function))) =>
          (columns, filtered(function, pair(columns)._2, kept, is = true))
        case ((columns, kept), ("key_rm", _)) => (pair(columns)._2, kept)
        case ((columns, kept), ("json", _))   => (JsonTexts.columns(columns, kept, total), kept)
        case _                                => throw Untranslatable
      }

    private def pair(columns: Columns): (Columns, Columns) = columns match {
      case tuples: Columns.Tuples if tuples.parts.length == 2 => (tuples.parts(0), tuples.parts(1))
      case _                                                  => throw Untranslatable
    }

    private def filtered(reader: FunctionReader, columns: Columns, rows: Array[Int], is: Boolean): Array[Int] = {
      val predicate = new OfRow(reader)
      val of = layouts.rows(columns)
      rows.filter { row =>
        val value = predicate.call(of, row)
        if (value.kind != Value.Bool) throw Untranslatable
        value.isTrue == is
      }
    }

    private def mapped(reader: FunctionReader, columns: Columns, rows: Array[Int], total: Int): Columns = {
      val of = layouts.rows(columns)
      reader.pathIn(of.layout).map(_.foldLeft(columns)(partOf)).getOrElse {
        reader.parts match {
          // A part that is a column is not copied.
          case Some((kind, parts)) => compose(kind, parts.map(mapped(_, columns, rows, total)).toArray)
          case None                => computed(reader, of, rows, total)
        }
      }
    }

    private def computed(reader: FunctionReader, of: Rows, rows: Array[Int], total: Int): Columns = {
      val row = new Given.Row
      val function = reader.over(of.layout -> row)
      val singles = Array.fill(function.results.length)(new Columns.Computed(total))
      var i = 0
      while (i < rows.length) {
        row.at(of.singles, rows(i))
        function.call()
        var k = 0
        while (k < singles.length) {
          singles(k).set(rows(i), function.results(k))
          k += 1
        }
        i += 1
      }
      composed(function.layout, singles.iterator)
    }

    /** Selects a part of columns. */
    private def partOf(columns: Columns, part: Int): Columns = columns match {
      case tuples: Columns.Tuples                    => tuples.parts(part)
      case dicts: Columns.Dicts                      => dicts.parts(part)
      case records: Columns.Records if records.plain => records.fields.parts(part)
      case _                                         => throw Untranslatable
    }

    private def composed(layout: Layout, singles: Iterator[Columns]): Columns = layout match {
      case Layout.Single             => singles.next()
      case Layout.Whole(kind, parts) => compose(kind, parts.map(composed(_, singles)).toArray)
    }

    private def compose(kind: Layout.Kind, columns: Array[Columns]): Columns = kind match {
      case Layout.Tuple             => new Columns.Tuples(columns)
      case Layout.Dict(names)       => new Columns.Dicts(names, columns)
      case Layout.Record(of, names) => new Columns.Records(of, new Columns.Dicts(names, columns), plain = true)
      case Layout.Many              => throw Untranslatable
    }
  }
}
