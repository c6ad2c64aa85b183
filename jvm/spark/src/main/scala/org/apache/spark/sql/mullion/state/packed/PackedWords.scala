package org.apache.spark.sql.mullion.state.packed

import java.nio.ByteOrder

import org.apache.spark.sql.mullion.state.record.RecordBytes
import org.apache.spark.unsafe.Platform

/** Compresses 8-byte words by omitting leading zero bytes. Counts, sums, keys and lengths are mostly small numbers,
  * whose zeros RocksDB would copy, compress, log and merge.
  *
  * {{{
  *   words    00000000000000a8  0000000000000000   0000000000012fd1  ffffffffffffffff
  *   packed   10  a8                               38  12fd1  ffffffffffffffff
  * }}}
  *
  * Each pair of words is preceded by a byte with their lengths, four bits each. The bytes of a word are little-endian,
  * like the processor's and the rows'; on other processors nothing is packed.
  */
private[packed] object PackedWords {

  /** True if words are packed on this machine. */
  val arePacked: Boolean = ByteOrder.nativeOrder() == ByteOrder.LITTLE_ENDIAN

  /** Entire words are written and read, so this many bytes must exist after the last. */
  final val Beyond = 8

  /** The maximum size of packed words, including `Beyond`. */
  def most(words: Int): Int = words * 8 + (words + 1) / 2 + Beyond

  /** Packs words. Returns their end, excluding `Beyond`.
    *
    * @param start
    *   the start of the first in `from`
    * @param at
    *   the start of the first in `to`, which has room for `most`
    */
  def pack(from: Array[Byte], start: Int, words: Int, to: Array[Byte], at: Int): Int = {
    var source = RecordBytes.offset(start)
    var target = RecordBytes.offset(at)
    var remaining = words
    while (remaining > 0) {
      val one = Platform.getLong(from, source)
      val other = if (remaining > 1) Platform.getLong(from, source + 8) else 0L
      val ofOne = bytesOf(one)
      val ofOther = bytesOf(other)
      Platform.putByte(to, target, (ofOne << 4 | ofOther).toByte)
      Platform.putLong(to, target + 1, one)
      Platform.putLong(to, target + 1 + ofOne, other)
      target += 1 + ofOne + ofOther
      source += 16
      remaining -= 2
    }
    (target - RecordBytes.offset(0)).toInt
  }

  /** Unpacks words into the start of an array. Fails for bytes that are not packed words.
    *
    * @param start
    *   the start of the first
    * @param end
    *   the end of the last, before `Beyond`
    */
  def unpack(from: AnyRef, start: Long, end: Long, words: Int, to: Array[Byte]): Unit = {
    var source = start
    var target = RecordBytes.offset(0)
    var remaining = words
    while (remaining > 0 && source < end) {
      val both = Platform.getByte(from, source)
      val ofOne = both >> 4 & 15
      val ofOther = both & 15
      if (ofOne > 8 || ofOther > 8 || source + 1 + ofOne + ofOther > end) damaged(words)
      Platform.putLong(to, target, Platform.getLong(from, source + 1) & Masks(ofOne))
      if (remaining > 1) Platform.putLong(to, target + 8, Platform.getLong(from, source + 1 + ofOne) & Masks(ofOther))
      source += 1 + ofOne + ofOther
      target += 16
      remaining -= 2
    }
    if (remaining > 0 || source != end) damaged(words)
  }

  private def damaged(words: Int): Unit =
    throw new IllegalStateException(s"a segment of state is damaged: its bytes are not $words words")

  private def bytesOf(word: Long): Int = (71 - java.lang.Long.numberOfLeadingZeros(word)) >>> 3

  /** The mask of a word with this number of bytes. */
  private val Masks: Array[Long] = Array.tabulate(9)(bytes => if (bytes == 0) 0L else -1L >>> (64 - 8 * bytes))
}
