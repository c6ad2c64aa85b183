package dev.mullion.windows.sets

import org.scalacheck.Gen

import dev.mullion.windows.rules.AlignedRules
import dev.mullion.windows.spec.AlignedWindow

/** The windows of a spec by definition, found by trying every start in unbounded integers: the model of `SliceGrid` and
  * `AlignedRules`.
  *
  * Window `k` is `[offset + k * slide, offset + k * slide + size)`.
  */
private[windows] final class Naive(spec: AlignedWindow) {
  private val (size, slide, offset) = (BigInt(spec.size), BigInt(spec.slide), BigInt(spec.offset))

  def start(window: BigInt): BigInt = offset + window * slide

  def end(window: BigInt): BigInt = start(window) + size

  def holds(window: BigInt, t: BigInt): Boolean = start(window) <= t && t < end(window)

  /** Some windows on both sides of `t`, including all that hold it. */
  def around(t: BigInt): Seq[BigInt] = {
    val below = (t - size) / slide - 3
    val above = t / slide + 3
    Iterator.iterate(below)(_ + 1).takeWhile(_ <= above).toSeq
  }

  /** The windows that hold `t`. */
  def holding(t: BigInt): Seq[BigInt] = around(t).filter(holds(_, t))

  /** The times in `(after, upTo]` at which a window starts or ends. */
  def edges(after: BigInt, upTo: BigInt): Seq[BigInt] =
    Iterator
      .iterate(around(after).head)(_ + 1)
      .takeWhile(_ <= around(upTo).last)
      .flatMap(k => Seq(start(k), end(k)))
      .filter(e => after < e && e <= upTo)
      .toSeq
      .distinct
}

private[windows] object Naive {

  /** For rules of windows of one size. */
  def apply(rules: AlignedRules): Naive = rules.window match {
    case aligned: AlignedWindow => new Naive(aligned)
    case other                  => throw new IllegalArgumentException(s"${other.describe} is of no one size")
  }

  /** `n` in the range of `Long`, clamped. */
  def clamp(n: BigInt): Long = n.max(Long.MinValue).min(Long.MaxValue).toLong

  /** Lengths with a few windows over a few slides, in any relation. */
  val spec: Gen[AlignedWindow] = for {
    size <- Gen.choose(1L, 30L)
    slide <- Gen.oneOf(Gen.choose(1L, 30L), Gen.oneOf((1L to size).filter(size % _ == 0)))
    offset <- Gen.choose(-100L, 100L)
  } yield AlignedWindow.sliding(size, slide, offset)

  /** Overlapping windows, the only ones that are stored in slices. */
  val overlapping: Gen[AlignedWindow] = for {
    size <- Gen.choose(2L, 30L)
    slide <- Gen.oneOf(Gen.choose(1L, size - 1), Gen.oneOf((1L until size).filter(size % _ == 0)))
    offset <- Gen.choose(-100L, 100L)
  } yield AlignedWindow.sliding(size, slide, offset)

  /** Lengths from microseconds to years, in the same relations and in unusual ones. */
  val anyLength: Gen[AlignedWindow] = for {
    small <- spec
    // Slides below 3 microseconds have more slices in all of time than there are ordinals.
    unit <- Gen.choose(2, 48).flatMap(bits => Gen.choose((1L << bits) - 1, (2L << bits) - 1))
    odd <- Gen.oneOf(Gen.const(0L), Gen.choose(0L, unit))
    slide = small.slide * unit
    offset <- Gen.oneOf(Gen.const(0L), Gen.choose(-2 * slide, 2 * slide))
  } yield AlignedWindow.sliding(small.size * unit + odd, slide, offset)

  /** Times near the epoch, on both sides. */
  val time: Gen[Long] = Gen.choose(-150L, 150L)

  /** All possible timestamps, often the first and the last ones. */
  val anyTime: Gen[Long] = Gen.frequency(
    3 -> Gen.choose(Long.MinValue, Long.MaxValue),
    2 -> Gen.choose(-100000000000L, 100000000000L),
    1 -> Gen.choose(Long.MinValue, Long.MinValue + 100000),
    1 -> Gen.choose(Long.MaxValue - 100000, Long.MaxValue),
    1 -> Gen.oneOf(Long.MinValue, Long.MinValue + 1, -1L, 0L, 1L, Long.MaxValue - 1, Long.MaxValue)
  )
}
