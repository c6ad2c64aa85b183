package org.apache.spark.sql.mullion.expressions.functions

import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.unsafe.Platform
import org.apache.spark.util.KnownSizeEstimation

/** The registers of a HyperLogLog++ sketch, as a list while few are set.
  *
  * {{{
  *   few     [register 17: 3] [register 400: 1]              one entry for each set register
  *   many    [r0 r1 ... r9] [r10 ... r19] ...                Spark's words, each with ten registers
  * }}}
  *
  * @param words
  *   the number of words with all registers
  */
final class HllRegisters(words: Int) extends KnownSizeEstimation {
  import HllRegisters._

  // A register and its rank in each entry. Null if there are words.
  private[this] var entries = new Array[Int](FirstEntries)
  private[this] var count = 0
  // Null if there are entries.
  private[this] var all: Array[Long] = _

  /** The number of set registers if these are few, else -1. */
  def few: Int = if (all eq null) count else -1

  /** Raises a register to a rank, unless its rank is greater. */
  def raise(register: Int, rank: Int): Unit =
    if (all ne null) raiseInWord(register, rank)
    else {
      var i = 0
      while (i < count && (entries(i) >>> RankBits) != register) i += 1
      if (i < count) entries(i) = Math.max(entries(i), (register << RankBits) | rank)
      else if (count < mostEntries(words)) append((register << RankBits) | rank)
      else {
        spread()
        raiseInWord(register, rank)
      }
    }

  private def append(entry: Int): Unit = {
    if (count == entries.length) entries = java.util.Arrays.copyOf(entries, 2 * count)
    entries(count) = entry
    count += 1
  }

  private def raiseInWord(register: Int, rank: Int): Unit = {
    val word = register / PerWord
    val shift = RankBits * (register - word * PerWord)
    if (((all(word) >>> shift) & RankMask) < rank)
      all(word) = (all(word) & ~(RankMask << shift)) | (rank.toLong << shift)
  }

  /** Moves the entries to words. */
  private def spread(): Unit = {
    all = new Array[Long](words)
    var i = 0
    while (i < count) {
      raiseInWord(entries(i) >>> RankBits, entries(i) & RankMask.toInt)
      i += 1
    }
    entries = null
    count = 0
  }

  /** Raises each register to its rank in another sketch. */
  def merge(other: HllRegisters): Unit = other.foreach(raise)

  private def foreach(use: (Int, Int) => Unit): Unit =
    if (all eq null) {
      var i = 0
      while (i < count) {
        use(entries(i) >>> RankBits, entries(i) & RankMask.toInt)
        i += 1
      }
    } else foreachIn(all)(use)

  /** The registers as a buffer of Spark's function. */
  def toRow: HllRegisters.Row = {
    if (all eq null) spread()
    new Row(all)
  }

  override def estimatedSize: Long = if (all eq null) ObjectBytes + 4L * entries.length else ObjectBytes + 8L * words

  /** The set registers, or all words if these are fewer bytes. */
  def toBytes: Array[Byte] = {
    var set = count
    if (all ne null) foreach((_, _) => set += 1)
    val size = set * entryBytes(words)
    if (size < 8 * words) {
      val bytes = new Array[Byte](size)
      var at = 0
      foreach { (register, rank) =>
        put(bytes, at, register, rank)
        at += entryBytes(words)
      }
      bytes
    } else {
      val bytes = new Array[Byte](8 * words)
      Platform.copyMemory(all, Platform.LONG_ARRAY_OFFSET.toLong, bytes, placeOf(0), bytes.length.toLong)
      bytes
    }
  }

  private def put(bytes: Array[Byte], at: Int, register: Int, rank: Int): Unit = {
    val entry = (register << RankBits) | rank
    if (entryBytes(words) == 2) Platform.putShort(bytes, placeOf(at), entry.toShort)
    else Platform.putInt(bytes, placeOf(at), entry)
  }

  private def read(bytes: Array[Byte]): Unit =
    if (bytes.length == 8 * words) {
      all = new Array[Long](words)
      entries = null
      Platform.copyMemory(bytes, placeOf(0), all, Platform.LONG_ARRAY_OFFSET.toLong, bytes.length.toLong)
    } else {
      val size = entryBytes(words)
      if (bytes.length / size > mostEntries(words)) spread()
      var at = 0
      while (at < bytes.length) {
        val entry =
          if (size == 2) Platform.getShort(bytes, placeOf(at)) & 0xffff else Platform.getInt(bytes, placeOf(at))
        if (all eq null) append(entry) else raiseInWord(entry >>> RankBits, entry & RankMask.toInt)
        at += size
      }
    }
}

object HllRegisters {
  // Of Spark's words.
  private final val RankBits = 6
  private final val RankMask = 63L
  private final val PerWord = 10

  private final val FirstEntries = 4
  private final val MostEntries = 16
  private final val ObjectBytes = 64L

  /** The maximum number of set registers that are entries: at most two fifths of all. Up to there the estimate depends
    * on their number alone.
    */
  def mostEntries(words: Int): Int = Math.min(MostEntries, (words - 1) * PerWord * 2 / 5)

  /** The bytes of an entry: two if the numbers of all registers have at most ten bits. */
  private def entryBytes(words: Int): Int = if (words * PerWord <= (1 << 10) + PerWord) 2 else 4

  private def placeOf(byte: Int): Long = Platform.BYTE_ARRAY_OFFSET.toLong + byte

  def ofBytes(bytes: Array[Byte], words: Int): HllRegisters = {
    val registers = new HllRegisters(words)
    registers.read(bytes)
    registers
  }

  /** Registers from the words of Spark's buffer. */
  def ofWords(of: Array[Long]): HllRegisters = {
    val registers = new HllRegisters(of.length)
    foreachIn(of)(registers.raise)
    registers
  }

  private def foreachIn(words: Array[Long])(use: (Int, Int) => Unit): Unit = {
    var word = 0
    while (word < words.length) {
      var ranks = words(word)
      var register = word * PerWord
      while (ranks != 0L) {
        if ((ranks & RankMask) != 0L) use(register, (ranks & RankMask).toInt)
        ranks >>>= RankBits
        register += 1
      }
      word += 1
    }
  }

  /** Spark's buffer over the words of all registers. */
  final class Row(words: Array[Long]) extends GenericInternalRow(NoValues) {
    override def numFields: Int = words.length
    override def getLong(ordinal: Int): Long = words(ordinal)
  }

  /** A buffer of Spark's function in which no register is set: receives the register that one value raises. */
  final class Raised extends GenericInternalRow(NoValues) {

    /** The register, or -1 if there was no value. */
    var register: Int = -1
    var rank: Int = 0

    override def getLong(ordinal: Int): Long = 0L

    override def setLong(ordinal: Int, ranks: Long): Unit = {
      val at = java.lang.Long.numberOfTrailingZeros(ranks) / RankBits
      register = ordinal * PerWord + at
      rank = (ranks >>> (at * RankBits)).toInt
    }
  }

  private val NoValues = Array.empty[Any]
}
