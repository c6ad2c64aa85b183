package org.apache.spark.sql.mullion.pyfunction.agents

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.{ISO_8859_1, UTF_8}

import scala.util.Try

import org.apache.spark.sql.mullion.pyfunction.state.{RecordPlace, ShardPlaces}
import org.apache.spark.sql.mullion.topics.JsonShard
import org.apache.spark.sql.types.{DataType, StringType}
import org.apache.spark.unsafe.types.UTF8String

/** The partitions of table records, by the layout of [[TableRecords]]: the records of a key are in the shard of the
  * Python package (`faust/_values/shards.py`).
  *
  * {{{
  *   value of a key or range, keys of a table, timer of a range     in the shard of the key
  *   clocks of a table                                              in each partition
  *   a timer that is called in each shard                           in each partition
  *   a timer that is called once                                    in the first partition
  * }}}
  *
  * @param timers
  *   the numbers of those that are called in each shard
  */
private[pyfunction] final class TablePlaces(tables: Seq[String], timers: Set[Int], isOneShard: Boolean)
    extends ShardPlaces {
  import TablePlaces._

  @transient private lazy val tableRecords = tables.map(new TableRecords(_))
  @transient private lazy val plain = tableRecords.flatMap(of => Seq(of.values, of.keys)).map(ByteBuffer.wrap).toSet
  @transient private lazy val clocks = tableRecords.map(of => ByteBuffer.wrap(of.clocks)).toSet
  @transient private lazy val ofTimers = tableRecords.map(of => ByteBuffer.wrap(of.timers)).toSet

  override def kind: DataType = StringType

  override def home: Option[Any] = Option.when(isOneShard)(UTF8String.EMPTY_UTF8)

  override def of(key: Array[Byte], isTimer: Boolean): RecordPlace =
    if (key.length > Head && key.startsWith(Timer)) {
      val number = Try(new String(key.drop(Head), UTF_8).toInt)
      if (number.toOption.exists(timers)) RecordPlace.OfPartition else RecordPlace.OfFirst
    } else if (key.length < Head) unknown
    else {
      val head = ByteBuffer.wrap(key, 0, Head).slice()
      if (isTimer) { if (ofTimers(head)) ofRange(key.drop(Head + 1)) else unknown }
      else if (clocks(head)) RecordPlace.OfPartition
      else if (plain(head)) inShard(key.drop(Head))
      else ofRange(key)
    }

  private def ofRange(record: Array[Byte]): RecordPlace = {
    val length = if (record.length < Head + 4) -1 else ByteBuffer.wrap(record).getInt(Head)
    if (length < 0 || record.length != Head + 4 + length + 16) unknown
    else {
      val key = TableRecords.keyOf(record)
      val head = record.take(Head)
      if (tableRecords.exists(table => java.util.Arrays.equals(table.headOfRanges(key), head))) inShard(key)
      else unknown
    }
  }

  private def inShard(key: Array[Byte]): RecordPlace =
    RecordPlace.OfShard(home.getOrElse(shardOf(key)))

  private def unknown =
    RecordPlace.Unknown(s"of none of its tables (${tables.mkString(", ")})")

  /** The clocks of a table after several partitions were merged: the latest, so that closed ranges stay closed. Expiry
    * is reset, because it differs between the partitions.
    */
  override def merged(key: Array[Byte], values: Seq[Array[Byte]]): Array[Byte] =
    if (key.startsWith(Timer)) values.head
    else {
      val times = values.map(ByteBuffer.wrap(_))
      ByteBuffer
        .allocate(24)
        .putLong(times.map(_.getLong(0)).max)
        .putLong(times.map(_.getLong(8)).max)
        .putLong(Long.MinValue)
        .array
    }
}

private[pyfunction] object TablePlaces {
  private val Head = 8
  private val Timer = "timer...".getBytes(UTF_8)
  private val Decimal = "{\"!\":\"decimal\",\"v\":\""

  /** The shard of a key in its JSON form. */
  private[agents] def shardOf(key: Array[Byte]): UTF8String =
    if (key.headOption.contains('"'.toByte)) UTF8String.fromBytes(unquoted(key))
    else {
      val text = new String(key, UTF_8)
      val shard =
        if (text.startsWith(Decimal)) JsonShard.ofDecimal(text.drop(Decimal.length).stripSuffix("\"}"))
        else JsonShard.ofValue(text)
      UTF8String.fromString(shard)
    }

  /** Byte by byte, because Python's text may have unpaired surrogates. JSON escapes quotes, backslashes and control
    * characters.
    */
  private def unquoted(json: Array[Byte]): Array[Byte] =
    StringContext.processEscapes(new String(json, 1, json.length - 2, ISO_8859_1)).getBytes(ISO_8859_1)
}
