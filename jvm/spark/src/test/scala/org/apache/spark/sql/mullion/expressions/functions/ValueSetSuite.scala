package org.apache.spark.sql.mullion.expressions.functions

import scala.collection.mutable
import scala.util.Random

import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types.{DataType, LongType, StringType}
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.{MullionSuite, TestSeed}

class ValueSetSuite extends MullionSuite {
  import ValueSetSuite._

  test("a set has each row once, in order of arrival, and reads itself again") {
    val seed = TestSeed.value
    val random = new Random(seed)
    for ((name, make) <- Seq("hashes" -> (() => new ValueSet), "equal hashes" -> (() => new EqualHashes))) {
      val (set, model) = (make(), mutable.LinkedHashSet.empty[String])
      (1 to 300).foreach { _ =>
        val text = "x" * random.nextInt(40) + random.nextInt(60)
        assertEquals(set.add(row(text, 7L)), model.add(text), s"$name, seed $seed")
      }
      assertEquals(texts(set), model.toSeq, s"$name, seed $seed")
      assertEquals(set.sizeInBytes, model.toSeq.map(row(_, 7L).getSizeInBytes).sum)

      val bytes = new Array[Byte](24 + set.storedSize)
      set.store(bytes, 24)
      val read = make()
      read.add(row("gone", 1L))
      read.load(bytes, 24)
      assertEquals(texts(read), model.toSeq)
      assert(!read.add(row(model.head, 7L)))
      assert(read.add(row(model.head, 8L)))

      val other = make()
      other.add(row("new", 7L))
      other.add(row(model.last, 7L))
      set.addAll(other)
      assertEquals(texts(set), model.toSeq :+ "new")
      set.clear()
      assertEquals((set.size, set.sizeInBytes, set.isEmpty), (0, 0, true))
      assert(set.add(row("new", 7L)))
    }
  }

  test("a row without columns is a value too") {
    val set = new ValueSet
    val none = new UnsafeRow(0)
    none.pointTo(new Array[Byte](0), 0)
    assert(set.add(none))
    assert(!set.add(none))
    val bytes = new Array[Byte](set.storedSize)
    set.store(bytes, 0)
    val read = new ValueSet
    read.load(bytes, 0)
    assertEquals(read.size, 1)
    assert(!read.add(none))
  }
}

object ValueSetSuite {
  private val toRow = UnsafeProjection.create(Array[DataType](StringType, LongType))

  private def row(text: String, number: Long): UnsafeRow =
    toRow(org.apache.spark.sql.catalyst.InternalRow(UTF8String.fromString(text), number)).copy()

  private def texts(set: ValueSet): Seq[String] = (0 until set.size).map { i =>
    val row = new UnsafeRow(2)
    set.read(i, row)
    row.getUTF8String(0).toString
  }

  private final class EqualHashes extends ValueSet {
    override protected def hashOf(base: AnyRef, offset: Long, length: Int): Long = 5L
  }
}
