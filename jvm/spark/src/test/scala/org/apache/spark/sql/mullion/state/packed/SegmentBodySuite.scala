package org.apache.spark.sql.mullion.state.packed

import scala.util.Random

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.state.record.RecordBytes

import dev.mullion.{MullionSuite, TestSeed}

class SegmentBodySuite extends MullionSuite {
  private val seed = TestSeed.value

  private def row(words: Long*): UnsafeRow = {
    val row = UnsafeRow.createFromByteArray(8 + 8 * words.length, words.length)
    words.zipWithIndex.foreach { case (word, i) => row.setLong(i, word) }
    row
  }

  /** The records, after room for a row's header. */
  private def laid(records: Seq[(UnsafeRow, UnsafeRow)]): Array[Byte] = {
    val bytes = new Array[Byte](SegmentBody.Header + records.map { case (k, v) => RecordBytes.size(k, v) }.sum)
    records.foldLeft(SegmentBody.Header) { case (at, (key, value)) =>
      RecordBytes.write(key, value, bytes, at)
      at + RecordBytes.size(key, value)
    }
    bytes
  }

  private def read(body: SegmentBody, row: UnsafeRow, columns: Int = 3): Seq[(UnsafeRow, UnsafeRow)] = {
    val (key, value) = (new UnsafeRow(2), new UnsafeRow(columns))
    body.open(row)
    Iterator.continually(body.next(key, value)).takeWhile(identity).map(_ => key.copy() -> value.copy()).toList
  }

  test(s"records are read as they were written, small numbers and large ones (seed $seed)") {
    val random = new Random(seed)
    val body = new SegmentBody
    val lengths = for (round <- 0 until 200) yield {
      val isSmall = round % 2 == 0
      def word() = if (isSmall) random.nextInt(1000).toLong else random.nextLong() | Long.MinValue
      val columns = if (isSmall) 3 else 30
      val records =
        Seq.fill(1 + random.nextInt(100))(row(word(), word()) -> row(Seq.fill(columns)(word()): _*))
      val bytes = laid(records)
      // The form of RocksDB: in an array of its own.
      val stored = body.of(bytes, bytes.length).copy()
      assertEquals(read(new SegmentBody, stored, columns), records, s"round $round")
      assertEquals(SegmentBody.sizeOf(stored), bytes.length - SegmentBody.Header)
      (isSmall, stored.getSizeInBytes.toDouble / bytes.length)
    }
    val (small, large) = lengths.partition(_._1)
    assert(clue(small.map(_._2).max) < 0.8)
    assert(clue(large.map(_._2).min) == 1.0)
  }

  test("records written before packing are read") {
    val records = Seq.tabulate(50)(i => row(1L, i.toLong) -> row(i.toLong, 0L, 7L))
    val bytes = laid(records)
    val stored = SegmentBody.rowOf(new UnsafeRow(1), bytes, bytes.length).copy()
    assertEquals(read(new SegmentBody, stored), records)
    assertEquals(SegmentBody.sizeOf(stored), bytes.length - SegmentBody.Header)
  }

  test("a record that is larger than a segment is written as it is") {
    val value = new UnsafeRow(3)
    value.pointTo(new Array[Byte](1 << 20), 1 << 20)
    val bytes = laid(Seq(row(1L, 2L) -> value))
    val stored = new SegmentBody().of(bytes, bytes.length)
    assertEquals(stored.getSizeInBytes, bytes.length)
    assertEquals(read(new SegmentBody, stored), Seq(row(1L, 2L) -> value))
  }
}
