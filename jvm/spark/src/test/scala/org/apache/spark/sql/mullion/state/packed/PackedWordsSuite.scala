package org.apache.spark.sql.mullion.state.packed

import scala.util.Random

import org.apache.spark.sql.mullion.state.record.RecordBytes
import org.apache.spark.unsafe.Platform

import dev.mullion.{MullionSuite, TestSeed}

class PackedWordsSuite extends MullionSuite {
  private val seed = TestSeed.value
  private val ends = Seq(0L, 1L, -1L, 255L, 256L, Long.MaxValue, Long.MinValue)

  private def words(random: Random, count: Int): Array[Long] = {
    val widest = random.nextInt(9)
    Array.fill(count) {
      if (random.nextInt(4) == 0) ends(random.nextInt(ends.length))
      else if (widest == 0) 0L
      else random.nextLong() >>> (64 - 8 * (1 + random.nextInt(widest)))
    }
  }

  private def bytesOf(words: Array[Long]): Array[Byte] = {
    val bytes = new Array[Byte](8 * words.length)
    Platform.copyMemory(words, Platform.LONG_ARRAY_OFFSET.toLong, bytes, RecordBytes.offset(0), bytes.length.toLong)
    bytes
  }

  test(s"words of any width are read as they were written, within the documented size (seed $seed)") {
    val random = new Random(seed)
    for (round <- 0 until 2000) {
      val count = random.nextInt(70)
      val (before, after) = (random.nextInt(5), random.nextInt(5))
      val bytes = bytesOf(words(random, before + count))
      val packed = Array.fill(after + PackedWords.most(count))(random.nextInt().toByte)
      val end = PackedWords.pack(bytes, 8 * before, count, packed, after)
      assert(end + PackedWords.Beyond <= packed.length, s"round $round")
      val unpacked = new Array[Byte](8 * count)
      PackedWords.unpack(packed, RecordBytes.offset(after), RecordBytes.offset(end), count, unpacked)
      assertEquals(unpacked.toSeq, bytes.drop(8 * before).toSeq, s"round $round")
    }
  }

  test("a word takes as many bytes as it has, and two take one more") {
    val packed = new Array[Byte](PackedWords.most(4))
    assertEquals(PackedWords.pack(bytesOf(Array(0L, 0L, 200L, -1L)), 0, 4, packed, 0), 1 + 1 + 1 + 8)
    assertEquals(PackedWords.pack(bytesOf(Array(0x12fd1L)), 0, 1, packed, 0), 1 + 3)
  }

  test(s"bytes of another length are rejected (seed $seed)") {
    val random = new Random(seed)
    for (_ <- 0 until 500) {
      val count = 1 + random.nextInt(40)
      val packed = new Array[Byte](PackedWords.most(count))
      val end = PackedWords.pack(bytesOf(words(random, count)), 0, count, packed, 0)
      def unpack(end: Int, count: Int) =
        PackedWords.unpack(
          packed,
          RecordBytes.offset(0),
          RecordBytes.offset(end),
          count,
          new Array[Byte](8 * count + 16)
        )
      intercept[IllegalStateException](unpack(random.nextInt(end), count))
      intercept[IllegalStateException](unpack(end, count + 2))
      packed(0) = (random.nextInt(7) + 9 << 4).toByte
      val failed = intercept[IllegalStateException](unpack(end, count))
      assertEquals(failed.getMessage, s"a segment of state is damaged: its bytes are not $count words")
    }
  }
}
