package org.apache.spark.sql.mullion.state.header

import org.apache.spark.sql.mullion.state.records.{FamilySpec, RecordOrder}
import org.apache.spark.sql.types.{DataType, StructType}

/** Where the records of an operator's windows are, once its windows are others than those that the state began with.
  * Records stay where they are, and the header says whose they are:
  *
  * {{{
  *   state began with       hourly        visits
  *   records of             hourly        visits
  *   windows are now        per_hour      visits        daily (new)
  * }}}
  *
  * The kind of record that a state begins with has a place of its own in its store, which no other kind can take while
  * there are records in it: in RocksDB the first column family. It keeps that when another window is the first by name,
  * and when its own window is gone.
  *
  * @param of
  *   for each window, by its name, the name under which its records are
  * @param first
  *   the kind of record that the state began with, if it is not the first one of the first window by name
  * @param gone
  *   kinds of record of windows that are gone, which the first batch drops
  * @param dropped
  *   those windows
  */
final case class RecordPlaces(
    of: Map[String, String],
    first: Option[FirstRecords],
    gone: Seq[FamilySpec] = Nil,
    dropped: Seq[String] = Nil
)

/** A kind of record, as a header says it. */
final case class FirstRecords(name: String, key: String, value: String, order: String, times: Int) {

  /** The name under which its window has its records. */
  def place: String = FirstRecords.placeOf(name)

  def spec: FamilySpec = {
    def struct(json: String) = DataType.fromJson(json).asInstanceOf[StructType]
    val kept = order match {
      case "unordered"  => RecordOrder.Unordered
      case "within key" => RecordOrder.WithinKey
      case "by last"    => RecordOrder.ByLast
      case _            => RecordOrder.ByFirst(times)
    }
    FamilySpec(name, struct(key), struct(value), kept)
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
