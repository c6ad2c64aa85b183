package org.apache.spark.sql.mullion.operator.engine.session

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.operator.engine.accumulators.{Accumulators, PaneSums}
import org.apache.spark.sql.mullion.operator.engine.timers.TimedKey
import org.apache.spark.sql.mullion.state.record.Family
import org.apache.spark.unsafe.Platform

import dev.mullion.windows.key.session.OpenSessions

/** The accumulators of one key's sessions, at rest, by the start of the session. */
private[operator] trait SessionSums {

  /** The accumulator for additions, in place if possible. */
  def get(start: Long): UnsafeRow

  /** The content of a session that a firing shows, for reading only. */
  def shown(start: Long): UnsafeRow

  /** The entire content of a session, to be merged with others, for reading only. */
  def complete(start: Long): UnsafeRow

  /** Converts an accumulator at work to its form at rest. */
  def store(start: Long, work: InternalRow): UnsafeRow
  def insert(start: Long, sum: UnsafeRow): Unit
  def update(start: Long, sum: UnsafeRow): Unit
  def remove(start: Long): Unit
}

private[operator] object SessionSums {

  /** The sessions that late rows reopen in a batch. */
  final class InMemory(accumulators: Accumulators) extends SessionSums {
    private val sums = new java.util.HashMap[Long, UnsafeRow]()

    override def get(start: Long): UnsafeRow = sums.get(start)
    override def shown(start: Long): UnsafeRow = sums.get(start)
    override def complete(start: Long): UnsafeRow = sums.get(start)
    override def store(start: Long, work: InternalRow): UnsafeRow = accumulators.rest(work)
    override def insert(start: Long, sum: UnsafeRow): Unit = { sums.put(start, sum.copy()); () }
    override def update(start: Long, sum: UnsafeRow): Unit = insert(start, sum)
    override def remove(start: Long): Unit = { sums.remove(start); () }
  }

  /** The accumulators of open sessions in state.
    *
    * @param sessions
    *   those outside of key records
    * @param sums
    *   their additional records
    */
  final class InState(
      val sessions: Family,
      val sums: PaneSums,
      val timed: TimedKey,
      val accumulators: Accumulators
  )

  /** The accumulators of open sessions of a key, buffered until the key is released. A key's record contains them if
    * they are few and small:
    *
    * {{{
    *   [size of the first, 4] ... of all but the last [first] ... [last]
    * }}}
    *
    * Otherwise each has its own record, until one is left.
    */
  final class InHand(state: InState, key: UnsafeRow) extends SessionSums {
    import state.{sessions, sums, timed}

    private val inMemory = new java.util.ArrayList[Held](1)

    /** Reads those of the key's record. */
    def read(open: OpenSessions, bytes: Array[Byte]): Unit = {
      val columns = state.accumulators.schema.length
      var at = 4 * (open.size - 1)
      var i = 0
      while (i < open.size) {
        val length =
          if (i + 1 < open.size) Platform.getInt(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + 4 * i)
          else bytes.length - at
        val row = new UnsafeRow(columns)
        row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + at, length)
        hold(open(i).first, row, isInState = false)
        at += length
        i += 1
      }
    }

    override def get(start: Long): UnsafeRow = loadSum(start).sum

    override def shown(start: Long): UnsafeRow = sums.shown(timed(start, key), looked(start))

    override def complete(start: Long): UnsafeRow = sums.complete(timed(start, key), looked(start))

    private def looked(start: Long): UnsafeRow = {
      val at = find(start)
      if (at >= 0) inMemory.get(at).sum else sessions.look(timed(start, key)).untilNextCall
    }

    override def store(start: Long, work: InternalRow): UnsafeRow = sums.store(timed(start, key), work)

    override def insert(start: Long, sum: UnsafeRow): Unit = { hold(start, sum.copy(), isInState = false); () }

    override def update(start: Long, sum: UnsafeRow): Unit = {
      val of = loadSum(start)
      if (of.sum ne sum) of.sum = sum.copy()
      of.isChanged = true
    }

    override def remove(start: Long): Unit = {
      val in = timed(start, key)
      sums.drop(in)
      val at = find(start)
      if (at < 0 || inMemory.remove(at).isInState) sessions.remove(in)
    }

    /** Clears a session. */
    def clear(start: Long): Unit = {
      sums.drop(timed(start, key))
      update(start, state.accumulators.empty)
    }

    /** The column for the key's record, or null; then all buffered accumulators are written.
      *
      * The choice must depend on the sessions alone, not on which of them are buffered, which depends on the order of
      * rows. Two attempts of a task may have different orders, and must write the same records if versions have no ids.
      */
    def leave(open: OpenSessions): Array[Byte] = {
      if (open.size <= Most) {
        var i = 0
        while (i < open.size && (open.size == 1 || heldBytes <= MostBytes)) {
          loadSum(open(i).first)
          i += 1
        }
      }
      // Sessions that are not buffered have their own record.
      if (inMemory.size == open.size && (inMemory.size == 1 || heldBytes <= MostBytes)) together(open)
      else {
        inMemory.forEach(write(_))
        inMemory.clear()
        None.orNull
      }
    }

    private def heldBytes: Int = {
      var bytes = 0
      var i = 0
      while (i < inMemory.size) { bytes += inMemory.get(i).sum.getSizeInBytes; i += 1 }
      bytes
    }

    private def together(open: OpenSessions): Array[Byte] = {
      var i = 0
      while (i < inMemory.size) {
        val of = inMemory.get(i)
        if (of.isInState) sessions.remove(timed(of.start, key))
        of.isInState = false
        i += 1
      }
      if (inMemory.size == 1) inMemory.get(0).sum.getBytes
      else {
        var at = 4 * (open.size - 1)
        val bytes = new Array[Byte](at + heldBytes)
        i = 0
        while (i < open.size) {
          val sum = inMemory.get(find(open(i).first)).sum
          if (i + 1 < open.size)
            Platform.putInt(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + 4 * i, sum.getSizeInBytes)
          sum.writeToMemory(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + at)
          at += sum.getSizeInBytes
          i += 1
        }
        bytes
      }
    }

    /** Buffers an accumulator, which it then owns.
      *
      * @param isInState
      *   whether `sessions` has it
      */
    private def hold(start: Long, sum: UnsafeRow, isInState: Boolean): Held = {
      if (inMemory.size == Most) write(inMemory.remove(0))
      val of = new Held(start, sum, isInState)
      inMemory.add(of)
      of
    }

    private def loadSum(start: Long): Held = {
      val at = find(start)
      if (at >= 0) inMemory.get(at) else hold(start, sessions.get(timed(start, key)).copy(), isInState = true)
    }

    private def find(start: Long): Int = {
      var i = inMemory.size - 1
      while (i >= 0 && inMemory.get(i).start != start) i -= 1
      i
    }

    private def write(of: Held): Unit =
      if (!of.isInState) sessions.insert(timed(of.start, key), of.sum)
      else if (of.isChanged) sessions.update(timed(of.start, key), of.sum)
  }

  /** Converts the accumulators of a key's record.
    *
    * @param count
    *   their number
    * @param made
    *   converts an accumulator; the result is valid until the next call
    */
  def rewritten(bytes: Array[Byte], count: Int)(made: UnsafeRow => UnsafeRow): Array[Byte] = {
    val old = new UnsafeRow(1)
    var at = 4 * (count - 1)
    val sums = (0 until count).map { i =>
      val length =
        if (i + 1 < count) Platform.getInt(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + 4 * i) else bytes.length - at
      old.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + at, length)
      at += length
      made(old).getBytes.clone()
    }
    val header = java.nio.ByteBuffer.allocate(4 * (count - 1)).order(java.nio.ByteOrder.nativeOrder)
    sums.init.foreach(sum => header.putInt(sum.length))
    (header.array +: sums).reduce(_ ++ _)
  }

  // A linear search over this many is cheap.
  private final val Most = 4
  // Larger records are not rewritten for a change of one session.
  private final val MostBytes = 1024

  private final class Held(val start: Long, var sum: UnsafeRow, var isInState: Boolean) {
    var isChanged: Boolean = false
  }
}
