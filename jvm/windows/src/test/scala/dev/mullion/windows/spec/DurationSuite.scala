package dev.mullion.windows.spec

import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite
import dev.mullion.windows.sets.Naive

class DurationSuite extends PropertySuite {

  test("durations read as people write them") {
    assertEquals(Duration.describe(90L * 1000000), "1 minute 30 seconds")
    assertEquals(Duration.describe(10L * 1000000), "10 seconds")
    assertEquals(Duration.describe(3600L * 1000000), "1 hour")
    assertEquals(Duration.describe(2L * 86400 * 1000000), "2 days")
    assertEquals(Duration.describe(1500L), "1 millisecond 500 microseconds")
    assertEquals(Duration.describe(1L), "1 microsecond")
  }

  test("no time is 0 seconds") {
    assertEquals(Duration.describe(0L), "0 seconds")
  }

  test("a negative duration is shown as such in error messages") {
    assertEquals(Duration.describe(-5L * 1000000), "-5 seconds")
  }

  test("the most negative duration, which has no absolute value, reads as microseconds") {
    assertEquals(Duration.describe(Long.MinValue), "-9223372036854775808 microseconds")
  }

  property("the words of a duration add up to it, largest unit first and none twice") {
    forAll(Naive.anyTime) { us =>
      val parts = partsOf(us)
      assertEquals(parts.map { case (n, unit) => n * micros(unit) }.sum, BigInt(us))
      val units = parts.map { case (_, unit) => micros(unit) }
      assertEquals(units, units.distinct.sorted.reverse)
    }
  }

  property("one is singular and the others plural") {
    forAll(Naive.anyTime) { us =>
      partsOf(us).foreach { case (n, unit) => assertEquals(unit.endsWith("s"), n.abs != 1, s"$n $unit") }
    }
  }

  /** The numbers of a description, each with its unit. */
  private def partsOf(us: Long): Seq[(BigInt, String)] =
    Duration.describe(us).split(' ').toSeq.grouped(2).map(part => (BigInt(part.head), part.last)).toSeq

  private def micros(unit: String): Long = unit.stripSuffix("s") match {
    case "day"         => 86400000000L
    case "hour"        => 3600000000L
    case "minute"      => 60000000L
    case "second"      => 1000000L
    case "millisecond" => 1000L
    case "microsecond" => 1L
  }
}
