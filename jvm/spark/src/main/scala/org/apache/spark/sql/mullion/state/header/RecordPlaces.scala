package org.apache.spark.sql.mullion.state.header

import org.apache.spark.sql.mullion.state.record.{FamilySpec, RecordOrder}
import org.apache.spark.sql.types.{DataType, StructType}

/** The places of the records of an operator's windows, after its windows have changed. Records keep their place, and
  * the header maps windows to places:
  *
  * {{{
  *   state began with       hourly        visits
  *   records of             hourly        visits
  *   windows are now        per_hour      visits        daily (new)
  * }}}
  *
  * The first kind of record has a special place in its store: in RocksDB the default column family. No other kind can
  * take it while it contains records. It stays there when another window is the first by name, and when its own window
  * is gone.
  *
  * @param of
  *   the name in the store of each window's records, by the window's name
  * @param first
  *   the kind of record that the state began with, if it is not the first kind of the first window by name
  * @param gone
  *   kinds of record of removed windows, which the first batch drops
  * @param dropped
  *   those windows
  */
final case class RecordPlaces(
    of: Map[String, String],
    first: Option[FirstRecords],
    gone: Seq[FamilySpec] = Nil,
    dropped: Seq[String] = Nil
)

/** A kind of record, in its form in a header. */
final case class FirstRecords(name: String, key: String, value: String, order: String, times: Int) {

  /** The name under which the records of its window are stored. */
  def place: String = FirstRecords.placeOf(name)

  def spec: FamilySpec = {
    def struct(json: String) = DataType.fromJson(json).asInstanceOf[StructType]
    val columns = order match {
      case "unordered"  => RecordOrder.Unordered
      case "within key" => RecordOrder.WithinKey
      case "by last"    => RecordOrder.ByLast
      case _            => RecordOrder.ByFirst(times)
    }
    FamilySpec(name, struct(key), struct(value), columns)
  }
}

object FirstRecords {
  def of(spec: FamilySpec): FirstRecords = {
    val order = spec.order match {
      case RecordOrder.Unordered  => "unordered"
      case RecordOrder.WithinKey  => "within key"
      case RecordOrder.ByLast     => "by last"
      case RecordOrder.ByFirst(_) => "by first"
    }
    FirstRecords(spec.name, spec.key.json, spec.value.json, order, spec.times.length)
  }

  def placeOf(family: String): String = family.take(Math.max(family.lastIndexOf('.'), 0))
}
