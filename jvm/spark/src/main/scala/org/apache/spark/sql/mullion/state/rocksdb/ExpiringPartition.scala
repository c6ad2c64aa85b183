package org.apache.spark.sql.mullion.state.rocksdb

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreConf}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.state.record.{
  BorrowedRow,
  Family,
  FamilyScan,
  FamilySpec,
  RecordBytes,
  RemovingScan,
  StatePartition
}

/** A partition for tests that overwrites the bytes of every borrowed row at the next call: code that keeps a row reads
  * garbage with any store, instead of by chance the right value. It also checks the partition's counters before each
  * commit.
  *
  * The rule is stricter than any store's: each call on the partition invalidates all earlier rows, on whichever family
  * or scan.
  *
  * {{{
  *   v = panes.get(a)          v is readable
  *   timers.insert(t, x)       v is overwritten, after the call: v may be passed to it
  *   scan.next()               scan.key and scan.value are readable
  *   scan.next()               they are overwritten
  * }}}
  */
private[state] final class ExpiringPartition(under: StatePartition) extends StatePartition {
  private val lent = new ExpiringPartition.Lent

  override def family(spec: FamilySpec): Family = new ExpiringPartition.ExpiringFamily(spec, under.family(spec), lent)
  override def rowsRead: Long = under.rowsRead
  override def rowsAdded: Long = under.rowsAdded
  override def checkInvariants(): Unit = under.checkInvariants()
  override def abort(): Unit = under.abort()

  override def commit(): Unit = lent.after {
    checkInvariants()
    under.commit()
  }

  override def bytesInMemory: Option[Long] = under.bytesInMemory
  override def store: StateStore = under.store
}

private[state] object ExpiringPartition {
  val Setting = "spark.sql.streaming.stateStore.mullion.expireRows"

  /** The system property of a driver that enables the setting in its sessions. */
  private val Property = "mullion.expireRows"

  def apply(opened: StatePartition, conf: StateStoreConf): StatePartition =
    if (conf.sqlConfs.get(Setting).contains("true")) new ExpiringPartition(opened) else opened

  /** Adds the setting to those sent to executors. */
  def addSetting(conf: SQLConf): Unit =
    if (!conf.contains(Setting) && sys.props.get(Property).contains("true")) conf.setConfString(Setting, "true")

  /** The rows that the last call returned. */
  private final class Lent {
    private var rows = List.empty[LentRow]

    /** Makes a call that invalidates all earlier rows. */
    def after[T](call: => T): T = {
      val result = call
      rows.foreach(_.expire())
      rows = Nil
      result
    }

    /** A copy of a row, valid until the next call.
      *
      * @param isConstant
      *   whether the caller must not change it
      */
    def apply(row: BorrowedRow, columns: Int, isConstant: Boolean): BorrowedRow =
      if (row.isAbsent) row
      else {
        val copy = new LentRow(row.untilNextCall, columns, isConstant)
        rows ::= copy
        BorrowedRow(copy.row)
      }
  }

  private final class LentRow(of: UnsafeRow, columns: Int, isConstant: Boolean) {
    private val original = RecordBytes.of(of)
    private val bytes = if (isConstant) original.clone() else original
    val row = new UnsafeRow(columns)
    row.pointTo(bytes, bytes.length)

    def expire(): Unit = {
      if (isConstant && !Arrays.equals(bytes, original))
        throw new IllegalStateException(s"a row that was returned to be read has been changed: $row")
      Arrays.fill(bytes, Nonsense)
    }
  }

  private final val Nonsense: Byte = -0x22

  private final class ExpiringFamily(spec: FamilySpec, under: Family, lent: Lent) extends Family {
    import lent.after

    private def lend(value: BorrowedRow, isConstant: Boolean) = lent(value, spec.value.length, isConstant)

    override def get(key: UnsafeRow): BorrowedRow = lend(after(under.get(key)), isConstant = false)

    override def look(key: UnsafeRow): BorrowedRow = lend(after(under.look(key)), isConstant = true)

    override def findsManyAtOnce: Boolean = under.findsManyAtOnce

    override def expect(keys: Array[UnsafeRow]): Unit = after(under.expect(keys))

    override def insert(key: UnsafeRow, value: UnsafeRow): Unit = after(under.insert(key, value))

    override def update(key: UnsafeRow, value: UnsafeRow): Unit = after(under.update(key, value))

    override def remove(key: UnsafeRow): Unit = after(under.remove(key))

    override def scan(from: Long): RemovingScan = removing(after(under.scan(from)))

    override def all(): RemovingScan = removing(after(under.all()))

    private def removing(scan: RemovingScan) =
      new ExpiringScan(spec, scan, lent, isConstant = false) with RemovingScan {
        override def remove(): Unit = after(scan.remove())
      }

    override def clear(): Unit = after(under.clear())

    override def range(from: UnsafeRow, until: UnsafeRow): FamilyScan =
      new ExpiringScan(spec, after(under.range(from, until)), lent, isConstant = false)

    override def look(from: UnsafeRow, until: UnsafeRow): FamilyScan =
      new ExpiringScan(spec, after(under.look(from, until)), lent, isConstant = true)
  }

  private class ExpiringScan(spec: FamilySpec, under: FamilyScan, lent: Lent, isConstant: Boolean) extends FamilyScan {
    private var lentKey: UnsafeRow = _
    private var lentValue: UnsafeRow = _

    override def next(): Boolean = {
      val isOn = lent.after(under.next())
      if (isOn) {
        lentKey = lent(under.key, spec.key.length, isConstant).untilNextCall
        lentValue = lent(under.value, spec.value.length, isConstant).untilNextCall
      }
      isOn
    }

    override def key: BorrowedRow = BorrowedRow(lentKey)
    override def value: BorrowedRow = BorrowedRow(lentValue)

    override def close(): Unit = lent.after(under.close())
  }
}
