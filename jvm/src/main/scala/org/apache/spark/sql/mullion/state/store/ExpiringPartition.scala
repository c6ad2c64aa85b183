package org.apache.spark.sql.mullion.state.store

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreConf, UnsafeRowPair}
import org.apache.spark.sql.mullion.state.records.{
  Family,
  FamilyScan,
  FamilySpec,
  RecordBytes,
  RemovingScan,
  StatePartition
}

/** A partition whose rows are made unreadable once they stand no more, for tests: who keeps a row that it was handed
  * reads nonsense, in whatever store, and not by chance what it was. What the partition counts is looked at before each
  * commit, too.
  *
  * {{{
  *   get, look     the row stands until the next call of its family has returned
  *   a scan        a pair stands until the scan is asked for the next one, or closed
  * }}}
  */
private[state] final class ExpiringPartition(under: StatePartition) extends StatePartition {
  import ExpiringPartition._

  override def family(spec: FamilySpec): Family = new ExpiringFamily(spec, under.family(spec))
  override def tellsAttemptsApart: Boolean = under.tellsAttemptsApart
  override def rowsRead: Long = under.rowsRead
  override def rowsAdded: Long = under.rowsAdded
  override def checkInvariants(): Unit = under.checkInvariants()
  override def abort(): Unit = under.abort()

  override def commit(): Unit = {
    checkInvariants()
    under.commit()
  }

  override def bytesInMemory: Option[Long] = under.bytesInMemory
  override def stores: Seq[StateStore] = under.stores
}

private[state] object ExpiringPartition {
  val Setting = "spark.sql.streaming.stateStore.mullion.expireRows"

  def apply(opened: StatePartition, conf: StateStoreConf): StatePartition =
    if (conf.sqlConfs.get(Setting).contains("true")) new ExpiringPartition(opened) else opened

  /** A row of its own on the bytes of another, until it expires. */
  private final class Lent(columns: Int) {
    private val row = new UnsafeRow(columns)
    private var bytes = Array.emptyByteArray

    def apply(of: UnsafeRow): UnsafeRow = {
      bytes = RecordBytes.of(of)
      row.pointTo(bytes, bytes.length)
      row
    }

    def expire(): Unit = Arrays.fill(bytes, Nonsense)
  }

  private final val Nonsense: Byte = -0x22

  private final class ExpiringFamily(spec: FamilySpec, under: Family) extends Family {
    private var lent = new Lent(spec.value.length)

    private def after[T](call: => T): T = {
      val result = call
      lent.expire()
      lent = new Lent(spec.value.length)
      result
    }

    private def lend(value: UnsafeRow): UnsafeRow = if (value eq null) value else lent(value)

    override def get(key: UnsafeRow): UnsafeRow = lend(after(under.get(key)))

    override def look(key: UnsafeRow): UnsafeRow = lend(after(under.look(key)))

    override def findsManyAtOnce: Boolean = under.findsManyAtOnce

    override def expect(keys: Array[UnsafeRow]): Unit = after(under.expect(keys))

    override def insert(key: UnsafeRow, value: UnsafeRow): Unit = after(under.insert(key, value))

    override def update(key: UnsafeRow, value: UnsafeRow): Unit = after(under.update(key, value))

    override def remove(key: UnsafeRow): Unit = after(under.remove(key))

    override def scan(from: Long): RemovingScan = removing(after(under.scan(from)))

    override def all(): RemovingScan = removing(after(under.all()))

    private def removing(scan: RemovingScan) = new ExpiringScan(spec, scan) with RemovingScan {
      override def remove(): Unit = after(scan.remove())
    }

    override def range(from: UnsafeRow, until: UnsafeRow): FamilyScan =
      new ExpiringScan(spec, after(under.range(from, until)))
  }

  private class ExpiringScan(spec: FamilySpec, under: FamilyScan) extends FamilyScan {
    private var key = new Lent(spec.key.length)
    private var value = new Lent(spec.value.length)

    private def expire(): Unit = {
      key.expire()
      value.expire()
      key = new Lent(spec.key.length)
      value = new Lent(spec.value.length)
    }

    override def hasNext: Boolean = under.hasNext

    override def next(): UnsafeRowPair = {
      expire()
      val pair = under.next()
      new UnsafeRowPair().withRows(key(pair.key), value(pair.value))
    }

    override def close(): Unit = {
      expire()
      under.close()
    }
  }
}
