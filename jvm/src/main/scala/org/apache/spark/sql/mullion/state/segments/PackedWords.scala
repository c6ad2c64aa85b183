package org.apache.spark.sql.mullion.state.segments

import java.nio.ByteOrder

import org.apache.spark.sql.mullion.state.records.RecordBytes
import org.apache.spark.unsafe.Platform

/** Words of eight bytes without the zeros that they begin with. Counts, sums, keys and lengths are small numbers
  * mostly, so most of their bytes are zeros: those need not be copied, compressed, logged and merged by RocksDB.
  *
  * {{{
  *   words    00000000000000a8  0000000000000000   0000000000012fd1  ffffffffffffffff
  *   packed   10  a8                               38  12fd1  ffffffffffffffff
  * }}}
  *
  * Before each two words stands a byte that says how many bytes they have: four bits for each. Bytes of a word lie in
  * the order of the processor, which is that of the rows too, and which has the least first: else nothing is packed.
  */
private[segments] object PackedWords {

  /** True if words are packed on this machine. */
  val arePacked: Boolean = ByteOrder.nativeOrder() == ByteOrder.LITTLE_ENDIAN

  /** Words are written and read whole: so many bytes after the last are there too. */
  final val Beyond = 8

  /** How many bytes so many words may take, with what is beyond. */
  def most(words: Int): Int = words * 8 + (words + 1) / 2 + Beyond

  /** Packs words; where they end, without what is beyond.
    *
    * @param start
    *   where the first is in `from`
    * @param at
    *   where the first is to be in `to`, which has room for `most`
    */
  def pack(from: Array[Byte], start: Int, words: Int, to: Array[Byte], at: Int): Int = {
    var source = RecordBytes.offset(start)
    var target = RecordBytes.offset(at)
    var left = words
    while (left > 0) {
      val one = Platform.getLong(from, source)
      val other = if (left > 1) Platform.getLong(from, source + 8) else 0L
      val ofOne = bytesOf(one)
      val ofOther = bytesOf(other)
      Platform.putByte(to, target, (ofOne << 4 | ofOther).toByte)
      Platform.putLong(to, target + 1, one)
      Platform.putLong(to, target + 1 + ofOne, other)
      target += 1 + ofOne + ofOther
      source += 16
      left -= 2
    }
    (target - RecordBytes.offset(0)).toInt
  }

  /** Unpacks words into an array, from its beginning. Fails if the bytes are no words that were packed.
    *
    * @param start
    *   where the first is
    * @param end
    *   where the last ends, behind which is what is beyond
    */
  def unpack(from: AnyRef, start: Long, end: Long, words: Int, to: Array[Byte]): Unit = {
    var source = start
    var target = RecordBytes.offset(0)
    var left = words
    while (left > 0 && source < end) {
      val both = Platform.getByte(from, source)
      val ofOne = both >> 4 & 15
      val ofOther = both & 15
      if (ofOne > 8 || ofOther > 8 || source + 1 + ofOne + ofOther > end) damaged(words)
      Platform.putLong(to, target, Platform.getLong(from, source + 1) & Kept(ofOne))
      if (left > 1) Platform.putLong(to, target + 8, Platform.getLong(from, source + 1 + ofOne) & Kept(ofOther))
      source += 1 + ofOne + ofOther
      target += 16
      left -= 2
    }
    if (left > 0 || source != end) damaged(words)
  }

  private def damaged(words: Int): Unit =
    throw new IllegalStateException(s"a segment of state is damaged: its bytes are not the $words words that it says")

  private def bytesOf(word: Long): Int = (71 - java.lang.Long.numberOfLeadingZeros(word)) >>> 3

  /** What is kept of a word that has so many bytes. */
  private val Kept: Array[Long] = Array.tabulate(9)(bytes => if (bytes == 0) 0L else -1L >>> (64 - 8 * bytes))
}
