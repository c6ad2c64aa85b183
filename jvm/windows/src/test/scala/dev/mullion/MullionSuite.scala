package dev.mullion

import scala.concurrent.duration.{Duration, DurationInt}

import munit.{FunSuite, ScalaCheckSuite}
import org.scalacheck.rng.Seed

/** The base of all suites. No time limit decides whether a test passes: munit's 30 seconds fail correct tests on a busy
  * machine.
  */
abstract class MullionSuite extends FunSuite {
  override def munitTimeout: Duration = 24.hours
}

/** The base of suites with properties. Their examples are the same in each run, until `MULLION_SEED` is another. */
abstract class PropertySuite extends MullionSuite with ScalaCheckSuite {
  override def scalaCheckInitialSeed: String = Seed(TestSeed.value).toBase64
}

object TestSeed {

  /** The seed of all random tests. `MULLION_SEED=` repeats a run that failed; the nightly workflow sets a new one. */
  val value: Long = sys.env.get("MULLION_SEED").fold(2026L)(_.toLong)
}
