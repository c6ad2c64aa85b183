package org.apache.spark.sql.mullion.pyfunction.agents

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8

import org.apache.spark.sql.mullion.pyfunction.state.RecordPlace
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.MullionSuite

class TablePlacesSuite extends MullionSuite {
  private def bytes(text: String) = text.getBytes(UTF_8)

  private val places = new TablePlaces(Seq("views", "totals"), timers = Set(1), isOneShard = false)
  private val views = new TableRecords("views")

  test("a key is in the same shard as in Python") {
    val results = Seq(
      "\"ann\"",
      "\"q\\\"uote\\\\\"",
      "\"line\\nbreak\\t\\u0001\"",
      "\"müller\"",
      "\"\"",
      "-7",
      "9223372036854775807",
      "9223372036854775808",
      "0.5",
      "true",
      "false",
      "{\"!\":\"decimal\",\"v\":\"5.0\"}",
      "{\"!\":\"decimal\",\"v\":\"5.5\"}",
      "{\"!\":\"decimal\",\"v\":\"NaN\"}",
      "{\"!\":\"decimal\",\"v\":\"1E+1000000000\"}",
      "{\"!\":\"tuple\",\"v\":[1,2]}",
      "null",
      "1.0"
    ).map(key => TablePlaces.shardOf(bytes(key)).toString)
    val wanted = Seq("ann", "q\"uote\\", "line\nbreak\t\u0001", "müller", "", "-7", "9223372036854775807", "~", "~")
    assertEquals(results, wanted ++ Seq("true", "false", "5", "~", "~", "~", "~", "", "1"))
  }

  test("the records of a key, and the timers of its ranges, are in its shard") {
    val range = views.ofRange(bytes("\"ann\""), 0L, 60L)
    val ann = RecordPlace.OfShard(UTF8String.fromString("ann"))
    assertEquals(places.of(range, isTimer = false), ann: RecordPlace)
    assertEquals(places.of(views.timerOf(range), isTimer = true), ann: RecordPlace)
    assertEquals(places.of(views.ofKey(bytes("\"ann\"")), isTimer = false), ann: RecordPlace)
    assertEquals(places.of(views.values ++ bytes("\"ann\""), isTimer = false), ann: RecordPlace)
    val inOne = new TablePlaces(Seq("views"), Set.empty, isOneShard = true)
    assertEquals(inOne.of(range, isTimer = false), RecordPlace.OfShard(UTF8String.EMPTY_UTF8): RecordPlace)
  }

  test("a timer of each shard, and clocks, are each partition's; a timer that is called once is the first's") {
    for (isTimer <- Seq(true, false)) {
      assertEquals(places.of(bytes("timer...1"), isTimer), RecordPlace.OfPartition: RecordPlace)
      assertEquals(places.of(bytes("timer...0"), isTimer), RecordPlace.OfFirst: RecordPlace)
    }
    assertEquals(places.of(views.clocks, isTimer = false), RecordPlace.OfPartition: RecordPlace)
  }

  test("a record of an unknown table is reported") {
    val other = new TableRecords("other")
    val range = other.ofRange(bytes("1"), 0L, 60L)
    for (
      (key, isTimer) <- Seq(range -> false, other.timerOf(range) -> true, other.clocks -> false, bytes("x") -> false)
    )
      places.of(key, isTimer) match {
        case RecordPlace.Unknown(why) => assertEquals(why, "of none of its tables (views, totals)")
        case known                    => fail(known.toString)
      }
  }

  test("clocks of several partitions become the latest, and expiry starts again") {
    def clocks(times: Long*) = times.foldLeft(ByteBuffer.allocate(8 * times.length))(_.putLong(_)).array
    val merged = places.merged(views.clocks, Seq(clocks(5L, 3L, 5L), clocks(4L, 4L)))
    assertEquals(merged.toSeq, clocks(5L, 4L, Long.MinValue).toSeq)
  }
}
