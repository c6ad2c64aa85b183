package org.apache.spark.sql.mullion.pyfunction.expression

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.{ByteBuffer, ByteOrder}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

/** Encodes values for [[ItemReader]] and Python: by column, with values of one type together. */
private[pyfunction] final class ItemWriter {
  private val head = new java.lang.StringBuilder(256)
  private val buffers = mutable.ArrayBuffer.empty[Array[Byte]]

  private def bytes(count: Int, items: Array[Item]): Array[Byte] = {
    head.append('[').append(count).append(',')
    column(items)
    encoded()
  }

  private def bytes(columns: Columns, rows: Array[Int]): Array[Byte] = {
    head.append('[').append(rows.length).append(',')
    gathered(columns, rows)
    encoded()
  }

  private def encoded(): Array[Byte] = {
    head.append(",[").append(buffers.map(_.length).mkString(",")).append("]]")
    val header = head.toString.getBytes(UTF_8)
    val data = ByteBuffer.allocate(4 + header.length + buffers.map(_.length).sum)
    data.putInt(header.length).put(header)
    buffers.foreach(data.put)
    data.array
  }

  /** Some rows of columns. */
  private def gathered(columns: Columns, rows: Array[Int]): Unit = columns match {
    case of: Columns.Ints     => ints(picked(of.values, rows))
    case of: Columns.Times    => within("z")(ints(picked(of.values, rows)))
    case of: Columns.Lengths  => within("w")(ints(picked(of.values, rows)))
    case of: Columns.Floats   => gatheredFloats(of.values, rows)
    case of: Columns.Texts    => gatheredTexts(of, rows)
    case of: Columns.Slices   => gatheredSlices(of, rows)
    case of: Columns.Computed => gatheredComputed(of, rows)
    case of: Columns.Tuples   => within("t")(all(of.parts, rows))
    case of: Columns.Dicts    => gatheredDicts(of, rows)
    case of: Columns.Records  =>
      head.append("[\"O\",")
      quoted(UTF8String.fromString(of.kind))
      head.append(',')
      gatheredDicts(of.fields, rows)
      head.append(if (of.plain) ",1]" else "]")
      ()
    case _ => column(rows.map(columns.item))
  }

  private def gatheredFloats(values: Array[Double], rows: Array[Int]): Unit = {
    val result = new Array[Double](rows.length)
    var i = 0
    while (i < rows.length) {
      result(i) = values(rows(i))
      i += 1
    }
    within("d")(doubles(result))
  }

  private def gatheredComputed(of: Columns.Computed, rows: Array[Int]): Unit = of.kindOf(rows) match {
    case Some(Value.Int)    => ints(picked(of.longsOf, rows))
    case Some(Value.Float)  => gatheredFloats(of.doublesOf, rows)
    case Some(Value.Time)   => within("z")(ints(picked(of.longsOf, rows)))
    case Some(Value.Length) => within("w")(ints(picked(of.longsOf, rows)))
    case Some(Value.Text)   => besides(rows.length, i => of.textOf(rows(i)))
    case _                  => column(rows.map(of.item))
  }

  /** Concatenated texts in a buffer. */
  private def besides(count: Int, texts: Columns.TextOf): Unit = {
    val lengths = new Array[Long](count)
    var i = 0
    var size = 0
    while (i < count) {
      lengths(i) = texts(i).numBytes.toLong
      size += lengths(i).toInt
      i += 1
    }
    val result = new Array[Byte](size)
    var at = 0
    i = 0
    while (i < count) {
      texts(i).writeToMemory(result, Platform.BYTE_ARRAY_OFFSET.toLong + at)
      at += lengths(i).toInt
      i += 1
    }
    behindLengths(lengths, result)
  }

  /** The same for slices of bytes. */
  private def gatheredSlices(of: Columns.Slices, rows: Array[Int]): Unit = {
    val lengths = new Array[Long](rows.length)
    var i = 0
    var size = 0
    while (i < rows.length) {
      val length = of.ends(rows(i)) - of.starts(rows(i))
      lengths(i) = length.toLong
      size += length
      i += 1
    }
    val result = new Array[Byte](size)
    var at = 0
    i = 0
    while (i < rows.length) {
      val length = lengths(i).toInt
      System.arraycopy(of.bytes, of.starts(rows(i)), result, at, length)
      at += length
      i += 1
    }
    behindLengths(lengths, result)
  }

  private def behindLengths(lengths: Array[Long], texts: Array[Byte]): Unit = within("v") {
    ints(lengths)
    head.append(',').append(buffers.length)
    buffers += texts
  }

  private def gatheredTexts(of: Columns.Texts, rows: Array[Int]): Unit = {
    // Numbers of the distinct texts, in the order of their first row.
    val numbers = new Array[Int](of.apart.length)
    val apart = mutable.ArrayBuffer.empty[UTF8String]
    val which = new Array[Long](rows.length)
    var i = 0
    while (i < rows.length) {
      val text = of.of(rows(i))
      if (numbers(text) == 0) {
        apart += of.apart(text)
        numbers(text) = apart.length
      }
      which(i) = numbers(text) - 1L
      i += 1
    }
    if (rows.length > ItemWriter.Few && apart.length <= rows.length / 4) repeated(apart, which)
    else besides(rows.length, i => apart(which(i).toInt))
  }

  private def repeated(apart: collection.Seq[UTF8String], which: Array[Long]): Unit = within("k") {
    quotedAll(apart)
    head.append(',')
    ints(which)
  }

  private def quotedAll(texts: collection.Seq[UTF8String]): Unit = {
    head.append('[')
    var first = true
    texts.foreach { text =>
      if (!first) head.append(',')
      first = false
      quoted(text)
    }
    head.append(']')
    ()
  }

  private def gatheredDicts(of: Columns.Dicts, rows: Array[Int]): Unit = within("m") {
    names(of.names)
    head.append(',')
    all(of.parts, rows)
  }

  private def all(parts: Array[Columns], rows: Array[Int]): Unit = {
    head.append('[')
    parts.indices.foreach { part =>
      if (part > 0) head.append(',')
      gathered(parts(part), rows)
    }
    head.append(']')
    ()
  }

  private def picked(values: Array[Long], rows: Array[Int]): Array[Long] = {
    val result = new Array[Long](rows.length)
    var i = 0
    while (i < rows.length) {
      result(i) = values(rows(i))
      i += 1
    }
    result
  }

  private def column(items: Array[Item]): Unit =
    if (items.isEmpty) head.append("null")
    else if (areAlike(items)) alike(items)
    else {
      val kinds = items.map(kindOf).distinct
      head.append("[\"u\",")
      ints(items.map(item => kinds.indexOf(kindOf(item)).toLong))
      kinds.foreach { kind =>
        val own = items.filter(kindOf(_) == kind)
        head.append(",[").append(own.length).append(',')
        column(own)
        head.append(']')
      }
      head.append(']')
    }

  private def areAlike(items: Array[Item]): Boolean = items(0) match {
    case _: Item.Float => areAll(items, classOf[Item.Float])
    case _: Item.Text  => areAll(items, classOf[Item.Text])
    case first         =>
      val kind = kindOf(first)
      areAll(items, first.getClass) && first.isInstanceOf[Item.Int] || items.forall(kindOf(_) == kind)
  }

  private def areAll(items: Array[Item], of: Class[_]): Boolean = {
    var i = 0
    while (i < items.length && (items(i).getClass eq of)) i += 1
    i == items.length
  }

  /** The kinds of columns. */
  private def kindOf(item: Item): Any = item match {
    case Item.Nothing                    => 0
    case _: Item.Bool                    => 1
    case _: Item.Int                     => 2
    case _: Item.Large                   => 2
    case _: Item.Float                   => 3
    case _: Item.Text                    => 4
    case _: Item.Time                    => 5
    case _: Item.Length                  => 6
    case Item.Tuple(items)               => ("tuple", items.length)
    case _: Item.Many                    => 7
    case _: Item.Numbers                 => 8
    case Item.Dict(keys, _)              => keys
    case Item.Record(of, keys, _, plain) => (of, keys, plain)
  }

  private def alike(items: Array[Item]): Unit = items(0) match {
    case Item.Nothing => head.append("[\"0\"]")
    case _: Item.Bool =>
      head.append("[\"b\",[")
      items.indices.foreach { i =>
        if (i > 0) head.append(',')
        head.append(if (items(i) == Item.Bool(true)) 1 else 0)
      }
      head.append("]]")
    case _: Item.Int | _: Item.Large =>
      if (items.exists(_.isInstanceOf[Item.Large])) large(items)
      else ints(items.map { case Item.Int(held) => held; case _ => throw Untranslatable })
    case _: Item.Float =>
      head.append("[\"d\",")
      doubles(items.map { case Item.Float(held) => held; case _ => throw Untranslatable })
      head.append(']')
    case _: Item.Text   => texts(items.map { case Item.Text(held) => held; case _ => throw Untranslatable })
    case _: Item.Time   => within("z")(ints(items.map { case Item.Time(us) => us; case _ => throw Untranslatable }))
    case _: Item.Length => within("w")(ints(items.map { case Item.Length(us) => us; case _ => throw Untranslatable }))
    case Item.Tuple(first) =>
      within("t")(parts(first.length, items.map { case Item.Tuple(held) => held; case _ => throw Untranslatable }))
    case _: Item.Many    => many("l", items.map { case Item.Many(held) => held; case _ => throw Untranslatable })
    case _: Item.Numbers =>
      many("S", items.map { case Item.Numbers(held) => held.map[Item](Item.Int(_)); case _ => throw Untranslatable })
    case Item.Dict(keys, _) =>
      dicts(keys, items.map { case Item.Dict(_, held) => held; case _ => throw Untranslatable })
    case Item.Record(of, keys, _, plain) =>
      head.append("[\"O\",")
      quoted(UTF8String.fromString(of))
      head.append(',')
      dicts(keys, items.map { case Item.Record(_, _, held, _) => held; case _ => throw Untranslatable })
      head.append(if (plain) ",1]" else "]")
  }

  private def within(mark: String)(body: => Unit): Unit = {
    head.append("[\"").append(mark).append("\",")
    body
    head.append(']')
    ()
  }

  private def parts(count: Int, rows: Array[Array[Item]]): Unit = {
    head.append('[')
    (0 until count).foreach { part =>
      if (part > 0) head.append(',')
      column(rows.map(_(part)))
    }
    head.append(']')
    ()
  }

  private def many(mark: String, rows: Array[Array[Item]]): Unit = within(mark) {
    val flat = rows.flatten
    ints(rows.map(_.length.toLong))
    head.append(',').append(flat.length).append(',')
    column(flat)
  }

  private def dicts(keys: Layout.Names, rows: Array[Array[Item]]): Unit = within("m") {
    names(keys)
    head.append(',')
    parts(keys.list.length, rows)
  }

  private def names(keys: Layout.Names): Unit = {
    head.append('[')
    keys.list.indices.foreach { i =>
      if (i > 0) head.append(',')
      quoted(UTF8String.fromString(keys.list(i)))
    }
    head.append(']')
    ()
  }

  private def ints(values: Array[Long]): Unit =
    if (values.length > ItemWriter.Few && areEqual(values)) {
      head.append("[\"=\",").append(values(0)).append(']')
      ()
    } else if (values.length <= ItemWriter.Few) {
      head.append("[\"i\",[")
      values.indices.foreach { i =>
        if (i > 0) head.append(',')
        head.append(values(i))
      }
      head.append("]]")
      ()
    } else {
      val result = ByteBuffer.allocate(values.length * 8).order(ByteOrder.nativeOrder)
      result.asLongBuffer.put(values)
      head.append("[\"q\",").append(buffers.length).append(']')
      buffers += result.array
      ()
    }

  private def areEqual(values: Array[Long]): Boolean = {
    var i = 1
    while (i < values.length && values(i) == values(0)) i += 1
    i >= values.length
  }

  private def large(items: Array[Item]): Unit = {
    head.append("[\"i\",[")
    items.indices.foreach { i =>
      if (i > 0) head.append(',')
      items(i) match {
        case Item.Large(held) => head.append(held.toString)
        case Item.Int(held)   => head.append(held)
        case _                => throw Untranslatable
      }
    }
    head.append("]]")
    ()
  }

  private def doubles(values: Array[Double]): Unit = {
    val result = ByteBuffer.allocate(values.length * 8).order(ByteOrder.nativeOrder)
    result.asDoubleBuffer.put(values)
    head.append(buffers.length)
    buffers += result.array
    ()
  }

  private def texts(values: Array[UTF8String]): Unit = {
    val apart = new java.util.LinkedHashMap[UTF8String, Long]
    if (values.length > ItemWriter.Few) values.foreach(text => apart.putIfAbsent(text, apart.size.toLong))
    if (!apart.isEmpty && apart.size <= values.length / 4)
      repeated(apart.keySet.asScala.toVector, values.map(apart.get(_)))
    else within("s")(quotedAll(values.toSeq))
  }

  private def quoted(text: UTF8String): Unit = {
    head.append('"')
    val string = text.toString
    var i = 0
    while (i < string.length) {
      val c = string.charAt(i)
      if (c == '"' || c == '\\') head.append('\\').append(c)
      else if (c < ' ') head.append(f"\\u${c.toInt}%04x")
      else head.append(c)
      i += 1
    }
    head.append('"')
    ()
  }
}

private[pyfunction] object ItemWriter {
  private val Few = 16

  def write(items: Array[Item]): Array[Byte] = new ItemWriter().bytes(items.length, items)

  /** Some rows of columns. */
  def write(columns: Columns, rows: Array[Int]): Array[Byte] = new ItemWriter().bytes(columns, rows)

  def writeOne(item: Item): Array[Byte] = write(Array(item))
}
