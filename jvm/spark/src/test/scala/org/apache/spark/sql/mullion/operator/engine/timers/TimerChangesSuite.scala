package org.apache.spark.sql.mullion.operator.engine.timers

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.mullion.state.record.{BorrowedRow, Family, FamilyScan, RemovingScan}
import org.apache.spark.sql.types.{DataType, LongType, StringType}
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.MullionSuite

class TimerChangesSuite extends MullionSuite {
  import TimerChangesSuite._

  test("timers go into state in order of time, before the epoch and after it") {
    val run = new Run(atOnce = 100)
    run.set(4L, "one").unset(-1L, "two").set(7L, "two").set(-3L, "three")
    assertEquals(run.done, Nil)
    assertEquals(run.flush().done, Seq("+ -3 three", "- -1 two", "+ 4 one", "+ 7 two"))
  }

  test("changes of one timer, and those due at one time, stay in the order in which they came") {
    val run = new Run(atOnce = 100)
    run.set(5L, "b").unset(5L, "b").set(5L, "a").set(5L, "b").set(1L, "b")
    assertEquals(run.flush().done, Seq("+ 1 b", "+ 5 b", "- 5 b", "+ 5 a", "+ 5 b"))
  }

  test("some are held back at once, and none is put twice") {
    val run = new Run(atOnce = 2)
    run.set(3L, "a").set(2L, "b").set(1L, "c")
    assertEquals(run.done, Seq("+ 2 b", "+ 3 a"))
    assertEquals(run.flush().flush().done, Seq("+ 2 b", "+ 3 a", "+ 1 c"))
  }

  test("of long keys fewer are held back") {
    val run = new Run(atOnce = 1000)
    (1 to 9).foreach(i => run.set(-i.toLong, "k" * (1 << 20)))
    assertEquals(run.done.size, 7)
    assertEquals(run.flush().done.map(_.length).distinct, Seq((1 << 20) + 5))
    assertEquals(run.done.size, 9)
  }

  test("thousands come in order, however many there are") {
    val run = new Run(atOnce = 1 << 16)
    val dues = (0 until 5000).map(i => (i * 7919L) % 5003 - 2500)
    dues.foreach(run.set(_, "k"))
    assertEquals(run.flush().done, dues.sorted.map(due => s"+ $due k"))
  }
}

object TimerChangesSuite {
  private val row = UnsafeProjection.create(Array[DataType](StringType, LongType))

  private final class Run(atOnce: Int) {
    private var steps = Vector.empty[String]
    private val changes = new TimerChanges(new Recorded(step => steps :+= step), dueAt = 1, columns = 2, atOnce)

    def done: Seq[String] = steps

    def set(due: Long, key: String): Run = { changes.insert(timer(due, key)); this }
    def unset(due: Long, key: String): Run = { changes.remove(timer(due, key)); this }
    def flush(): Run = { changes.flush(); this }

    private def timer(due: Long, key: String) = row(InternalRow(UTF8String.fromString(key), due))
  }

  private final class Recorded(note: String => Unit) extends Family {
    override def insert(key: UnsafeRow, value: UnsafeRow): Unit = note(s"+ ${text(key)}")
    override def remove(key: UnsafeRow): Unit = note(s"- ${text(key)}")
    override def get(key: UnsafeRow): BorrowedRow = throw new UnsupportedOperationException
    override def update(key: UnsafeRow, value: UnsafeRow): Unit = throw new UnsupportedOperationException
    override def scan(from: Long): RemovingScan = throw new UnsupportedOperationException
    override def range(from: UnsafeRow, until: UnsafeRow): FamilyScan = throw new UnsupportedOperationException

    private def text(timer: UnsafeRow) = s"${timer.getLong(1)} ${timer.getUTF8String(0)}"
  }
}
