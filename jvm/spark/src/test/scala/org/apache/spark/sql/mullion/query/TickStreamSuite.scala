package org.apache.spark.sql.mullion.query

import org.apache.spark.sql.connector.read.streaming.ReadLimit

import dev.mullion.MullionSuite

class TickStreamSuite extends MullionSuite {
  private val all = ReadLimit.allAvailable()

  test("a query that starts for the first time has no tick, and one that starts again has one") {
    val first = new TickStream
    val begin = first.initialOffset()
    assertEquals(first.latestOffset(begin, all), begin)

    val again = new TickStream
    val tick = again.latestOffset(begin, all)
    assertNotEquals(tick.json, begin.json)
    assertEquals(again.latestOffset(tick, all), tick)
  }

  test("an offset of a checkpoint that recorded only starts is read") {
    assertEquals(new TickStream().deserializeOffset("3").json, "3")
    assertEquals(new TickStream().latestOffset(new TickStream().deserializeOffset("3"), all).json, "4")
  }

  test("an offset contains starts and ends, and survives serialization") {
    val ended = new TickStream().deserializeOffset("[3,2]")
    assertEquals(ended.json, "[3,2]")
    assertEquals(new TickStream().latestOffset(ended, all).json, "[4,2]")
  }

  test("an invalid offset of ticks is rejected") {
    intercept[IllegalArgumentException](new TickStream().deserializeOffset("[3]"))
  }

  test("the input ends where the number of its ends grows") {
    val ticks = new TickStream
    def at(json: String) = ticks.deserializeOffset(json)
    assert(TickStream.endsBetween(at("3"), at("[3,1]")))
    assert(TickStream.endsBetween(at("[3,1]"), at("[4,2]")))
    assert(!TickStream.endsBetween(at("3"), at("4")))
    assert(!TickStream.endsBetween(at("[3,1]"), at("[4,1]")))
  }
}
