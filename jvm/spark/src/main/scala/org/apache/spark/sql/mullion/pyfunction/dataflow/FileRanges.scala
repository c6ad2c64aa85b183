package org.apache.spark.sql.mullion.pyfunction.dataflow

import java.io.IOException
import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.charset.{CharacterCodingException, CodingErrorAction}
import java.nio.file.{Path, StandardOpenOption}

import scala.util.Using

import org.apache.spark.sql.mullion.pyfunction.expression.{Columns, Layout, Untranslatable}
import org.apache.spark.unsafe.Platform

/** Lines of a file that an entry of the log of inputs refers to by their byte range:
  *
  * {{{
  *   at, 2.5\n  ann, 3.5\n  bob, 1.0\n      from 8 until 26: two lines, which Python certainly reads as such
  * }}}
  *
  * The program finds the lines that Python would split in the same way ([[FileRanges.linesIn]]), and a task reads them.
  */
private[mullion] object FileRanges {
  private val Window = 8 << 20
  private val Sample = 16 << 10
  // The module csv raises an error for a longer field.
  private val LongestRow = 131072

  /** Complete batches of lines from a position on, or all remaining lines.
    *
    * @param delimiter
    *   of a CSV file; empty for lines of text
    * @return
    *   the end and the number of the lines, which is 0 if Python might split them otherwise
    */
  def linesIn(path: String, from: Long, delimiter: String, batchSize: Int, most: Int): Array[Long] =
    Using.resource(FileChannel.open(Path.of(path), StandardOpenOption.READ)) { file =>
      val few = likely(file, from, most)
      linesOf(file, from, few, delimiter, batchSize, most)
        .orElse(linesOf(file, from, Window, delimiter, batchSize, most))
        .getOrElse(Array(from, 0L))
    }

  /** Estimates the bytes of `most` lines from a sample. */
  private def likely(file: FileChannel, from: Long, most: Int): Int = {
    val sample = read(file, from, Sample)
    val lines = sample.count(_ == '\n')
    if (lines == 0) Window
    else Math.min(Window.toLong, most.toLong * (sample.length / lines + 1) * 9 / 8 + Sample).toInt
  }

  /** The lines in `length` bytes; `None` if more bytes may contain more lines. */
  private def linesOf(
      file: FileChannel,
      from: Long,
      length: Int,
      delimiter: String,
      batchSize: Int,
      most: Int
  ): Option[Array[Long]] = {
    val size = file.size
    val bytes = read(file, from, Math.min(length.toLong, Math.max(0L, size - from)).toInt)
    val ends = from + bytes.length >= size
    val scan = new Scan(bytes, delimiter)
    var (lines, complete, at, end) = (0, 0, 0, 0)
    var isCertain = true
    while (isCertain && at < bytes.length && complete < most) {
      val next = scan.endOfLine(at)
      if (next < 0 && !(next == Scan.Cut && ends && scan.isWhole(at, bytes.length))) isCertain = false
      else {
        at = if (next < 0) bytes.length else next
        lines += 1
        if (lines % batchSize == 0 || (ends && at == bytes.length)) {
          complete = lines
          end = at
        }
      }
    }
    if (length < Window && complete < most && !ends) None
    else Some(if (scan.isText(end)) Array(from + end, complete.toLong) else Array(from, 0L))
  }

  private def read(file: FileChannel, from: Long, length: Int): Array[Byte] = {
    val buffer = ByteBuffer.allocate(length)
    var at = from
    var got = 0
    while (buffer.hasRemaining && got >= 0) {
      got = file.read(buffer, at)
      at += Math.max(0, got)
    }
    if (buffer.hasRemaining) java.util.Arrays.copyOf(buffer.array, buffer.position()) else buffer.array
  }

  private object Scan {
    val Cut = -1
    val Unsure = -2
  }

  private final class Scan(bytes: Array[Byte], delimiter: String) {
    private val isCsv = delimiter.nonEmpty
    private val comma = if (isCsv) delimiter.charAt(0).toByte else 0.toByte
    // Only CSV has quotes.
    private val quote: Byte = if (isCsv) '"' else '\n'
    private var isAscii = true

    /** The start of the next line, or the reason why it is unknown. */
    def endOfLine(start: Int): Int = {
      var i = start
      var hasQuotes = false
      while (i < bytes.length) {
        i = PlainBytes.after(bytes, i, bytes.length, quote)
        if (i == bytes.length) return Scan.Cut
        val b = bytes(i)
        if (b == '\n') return if (isWhole(start, i, hasQuotes)) i + 1 else Scan.Unsure
        if (b == '\r' && (i + 1 >= bytes.length || bytes(i + 1) != '\n')) return Scan.Unsure
        if (b < 0) isAscii = false
        else if (b == '"') hasQuotes = true
        else if (b == 0) return Scan.Unsure
        i += 1
      }
      Scan.Cut
    }

    /** True if a line, without its end, is one row. */
    def isWhole(start: Int, end: Int, hasQuotes: Boolean = true): Boolean = !isCsv || {
      val until = if (end > start && bytes(end - 1) == '\r') end - 1 else end
      until > start && until - start < LongestRow && (!hasQuotes || {
        var at = start
        while (at >= 0 && at < until) at = CsvRows.endOfField(bytes, at, until, comma) + 1
        at > 0
      })
    }

    /** True if the bytes are text. */
    def isText(until: Int): Boolean = isAscii ||
      (try {
        UTF_8.newDecoder
          .onMalformedInput(CodingErrorAction.REPORT)
          .onUnmappableCharacter(CodingErrorAction.REPORT)
          .decode(ByteBuffer.wrap(bytes, 0, until))
        true
      } catch { case _: CharacterCodingException => false })
  }

  /** The items of a range: texts, or dicts of the columns of a CSV file. Throws [[Untranslatable]] if the file has
    * changed.
    */
  private[dataflow] def items(
      path: String,
      from: Long,
      until: Long,
      lines: Int,
      delimiter: String,
      names: Array[String]
  ): Columns = {
    val bytes =
      try
        Using.resource(FileChannel.open(Path.of(path), StandardOpenOption.READ))(read(_, from, (until - from).toInt))
      catch { case _: IOException => throw Untranslatable }
    if (bytes.length != until - from) throw Untranslatable
    if (delimiter.isEmpty) texts(bytes, lines)
    else CsvRows.columns(bytes, lines, delimiter.charAt(0).toByte, names)
  }

  private def texts(bytes: Array[Byte], lines: Int): Columns = {
    val (starts, ends) = (new Array[Int](lines), new Array[Int](lines))
    var (row, at) = (0, 0)
    while (at < bytes.length) {
      if (row == lines) throw Untranslatable
      val i = PlainBytes.endOfLine(bytes, at)
      starts(row) = at
      ends(row) = if (i < bytes.length && i > at && bytes(i - 1) == '\r') i - 1 else i
      row += 1
      at = i + 1
    }
    if (row != lines) throw Untranslatable
    new Columns.Slices(bytes, starts, ends)
  }
}

/** Finds bytes, eight at a time. */
private[dataflow] object PlainBytes {
  private val Ones = 0x0101010101010101L
  private val Highs = 0x8080808080808080L
  private val Blanks = Ones * ' '
  private val Ends = Ones * '\n'
  private val Quotes = Ones * '"'
  private val Backslashes = Ones * '\\'

  /** The first position from `at` on, before `until`, of `mark` or of a byte that is no printable ASCII character;
    * `until` if there is none.
    */
  def after(bytes: Array[Byte], at: Int, until: Int, mark: Byte): Int = {
    val marks = Ones * mark
    var i = at
    var isPlain = true
    while (isPlain && i + 8 <= until) {
      val eight = Platform.getLong(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + i)
      val marked = eight ^ marks
      // The subtraction sets the highest bit of a byte below 0x80 that is less.
      val bits = eight | ((eight - Blanks) & ~eight) | ((marked - Ones) & ~marked)
      isPlain = (bits & Highs) == 0
      if (isPlain) i += 8
    }
    while (i < until && bytes(i) >= ' ' && bytes(i) != mark) i += 1
    i
  }

  /** The first position from `at` on, before `until`, of a quote, a backslash or a control character; `until` if there
    * is none.
    */
  def endOfText(bytes: Array[Byte], at: Int, until: Int): Int = {
    var i = at
    var isWithin = true
    while (isWithin && i + 8 <= until) {
      val eight = Platform.getLong(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + i)
      val (quoted, escaped) = (eight ^ Quotes, eight ^ Backslashes)
      val bits = ((eight - Blanks) & ~eight) | ((quoted - Ones) & ~quoted) | ((escaped - Ones) & ~escaped)
      isWithin = (bits & Highs) == 0
      if (isWithin) i += 8
    }
    while (i < until && bytes(i) != '"' && bytes(i) != '\\' && (bytes(i) >= ' ' || bytes(i) < 0)) i += 1
    i
  }

  /** The end of the line that begins at `at`. */
  def endOfLine(bytes: Array[Byte], at: Int): Int = {
    var i = at
    var isWithin = true
    while (isWithin && i + 8 <= bytes.length) {
      val eight = Platform.getLong(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + i) ^ Ends
      isWithin = ((eight - Ones) & ~eight & Highs) == 0
      if (isWithin) i += 8
    }
    while (i < bytes.length && bytes(i) != '\n') i += 1
    i
  }
}

/** Rows of CSV, one per line, as Python's module `csv` reads them. */
private[dataflow] object CsvRows {

  /** The end of the field that begins at `at`: its delimiter, or `until`; -2 if it is uncertain. */
  def endOfField(bytes: Array[Byte], at: Int, until: Int, comma: Byte): Int =
    if (at < until && bytes(at) == '"') {
      var i = at + 1
      while (i < until && bytes(i) != '"') i += 1
      if (i < until && (i + 1 == until || bytes(i + 1) == comma)) i + 1 else -2
    } else {
      var i = at
      while (i < until && bytes(i) != comma) i += 1
      i
    }

  def columns(bytes: Array[Byte], rows: Int, comma: Byte, names: Array[String]): Columns = {
    val starts = Array.fill(names.length)(new Array[Int](rows))
    val ends = Array.fill(names.length)(new Array[Int](rows))
    var (row, at) = (0, 0)
    while (at < bytes.length) {
      if (row == rows) throw Untranslatable
      val end = PlainBytes.endOfLine(bytes, at)
      val until = if (end > at && bytes(end - 1) == '\r') end - 1 else end
      var field = 0
      while (field < names.length) {
        // Python fills a row with fewer fields with None, and one with more fields with a list.
        if (at > until) throw Untranslatable
        val ended = endOfField(bytes, at, until, comma)
        if (ended < 0) throw Untranslatable
        val isQuoted = bytes.length > at && at < until && bytes(at) == '"'
        starts(field)(row) = if (isQuoted) at + 1 else at
        ends(field)(row) = if (isQuoted) ended - 1 else ended
        at = ended + 1
        field += 1
      }
      if (at != until + 1) throw Untranslatable
      row += 1
      at = end + 1
    }
    if (row != rows) throw Untranslatable
    val columns = names.indices.map(i => new Columns.Slices(bytes, starts(i), ends(i)): Columns).toArray
    new Columns.Dicts(Layout.Names(names.toVector), columns)
  }
}
