package org.apache.spark.sql.mullion.operator.engine.timers

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.mullion.state.record.{BorrowedRow, Family, FamilyScan, RemovingScan}
import org.apache.spark.sql.types.{DataType, StringType}
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.MullionSuite

class PrefetchedRowsSuite extends MullionSuite {
  import PrefetchedRowsSuite._

  test("rows are looked up by the hundreds, and come as they are") {
    val (looked, came) = through(Seq.tabulate(1200)(i => s"key $i"))
    assertEquals(looked.map(_.size), Seq(512, 512, 176))
    assertEquals(looked.flatten, came)
    assertEquals(came, Seq.tabulate(1200)(i => s"key $i"))
  }

  test("of large rows fewer are looked up at once, and at least one") {
    val keys = Seq.tabulate(9)(i => i.toString * (100 << 10)) :+ "x" * (1 << 20) :+ "y" * (1 << 20)
    val (looked, came) = through(keys)
    assertEquals(looked.map(_.size), Seq(3, 3, 3, 1, 1))
    assertEquals(came, keys)
  }
}

object PrefetchedRowsSuite {

  /** The keys looked up in each round, and those of the output rows. */
  private def through(keys: Seq[String]): (Seq[Seq[String]], Seq[String]) = {
    // One row for all, like Spark's operators.
    val row = UnsafeProjection.create(Array[DataType](StringType))
    val input = keys.iterator.map(key => row(InternalRow(UTF8String.fromString(key))): InternalRow)
    val store = new Store
    val came = new PrefetchedRows(input, store)(_.asInstanceOf[UnsafeRow]).map(_.getUTF8String(0).toString).toVector
    (store.looked, came)
  }

  private final class Store extends Family {
    var looked: Vector[Seq[String]] = Vector.empty

    override def findsManyAtOnce: Boolean = true
    override def expect(keys: Array[UnsafeRow]): Unit = looked :+= keys.toSeq.map(_.getUTF8String(0).toString)
    override def get(key: UnsafeRow): BorrowedRow = throw new UnsupportedOperationException
    override def insert(key: UnsafeRow, value: UnsafeRow): Unit = throw new UnsupportedOperationException
    override def update(key: UnsafeRow, value: UnsafeRow): Unit = throw new UnsupportedOperationException
    override def remove(key: UnsafeRow): Unit = throw new UnsupportedOperationException
    override def scan(from: Long): RemovingScan = throw new UnsupportedOperationException
    override def range(from: UnsafeRow, until: UnsafeRow): FamilyScan = throw new UnsupportedOperationException
  }
}
