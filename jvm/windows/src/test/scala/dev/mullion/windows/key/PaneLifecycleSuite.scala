package dev.mullion.windows.key

import scala.collection.mutable

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite
import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules.{AlignedRules, EarlyFiring, FiringKind, LatePolicy, Refinements, WindowFold}
import dev.mullion.windows.sets.{Naive, SliceSet}

/** All parts together, in the way of an operator for one key: compares the firings with the pane contract, applied to
  * each pane separately with all of its rows.
  *
  * {{{
  *   rows -> slices -> panes -> firings          the parts
  *   rows -----------> panes -> firings          the contract
  * }}}
  */
class PaneLifecycleSuite extends PropertySuite {
  import PaneLifecycleSuite._

  override def scalaCheckTestParameters = super.scalaCheckTestParameters.withMinSuccessfulTests(200)

  property("firings, closes and late rows of each batch equal the contract") {
    forAll(scenario) { scenario =>
      val (parts, contract) = (new Parts(scenario.rules), new Contract(scenario.rules))
      scenario.batches.foreach { batch =>
        assertEquals(parts.run(batch), contract.run(batch), batch.toString)
      }
    }
  }

  property("when the clock has passed everything, no slice and no record of a pane is left") {
    forAll(scenario) { scenario =>
      val parts = new Parts(scenario.rules)
      (scenario.batches ++ scenario.afterAll).foreach(parts.run)
      assert(parts.isEmpty)
    }
  }

  property("a pane fires early, on time and for updates in this order, then closes once, all numbered from 0") {
    forAll(scenario) { scenario =>
      val parts = new Parts(scenario.rules)
      val firings = (scenario.batches ++ scenario.afterAll).flatMap(parts.run(_).firings).groupBy(_.window)
      firings.values.foreach { ofPane =>
        val kinds = ofPane.map(_.kind)
        val rest = kinds.dropWhile(_ == "early")
        val afterOnTime = if (rest.headOption.contains("on_time")) rest.tail.dropWhile(_ == "update") else rest
        assertEquals(afterOnTime, List("close"), kinds.toString)
        assertEquals(ofPane.map(_.index), ofPane.indices.toList)
      }
    }
  }

  property("in whatever order the rows of a batch come, the same panes fire") {
    forAll(scenario) { scenario =>
      val (parts, reversed) = (new Parts(scenario.rules), new Parts(scenario.rules))
      scenario.batches.foreach { batch =>
        assertEquals(reversed.run(batch.copy(times = batch.times.reverse)), parts.run(batch))
      }
    }
  }
}

object PaneLifecycleSuite {

  private final case class Batch(clock: BatchClock, times: List[Long])

  /** A firing of a pane with the times of its rows, in order. */
  private final case class Fired(window: Long, kind: String, index: Int, rows: Vector[Long])
  private final case class Outcome(late: List[Long], firings: List[Fired])

  private final case class Scenario(rules: AlignedRules, batches: List[Batch]) {

    /** A batch without rows, so far ahead that all panes close. */
    def afterAll: Option[Batch] =
      batches.lastOption.map(last => Batch(BatchClock(last.clock.now, 10000, last.clock.wall, rowsCame = false), Nil))
  }

  private val rowsOfBatch: Gen[List[Long]] = Gen.choose(1, 12).flatMap(Gen.listOfN(_, Gen.choose(-60L, 20L)))

  /** Rows that are roughly in order, sometimes none, around the epoch. */
  private val scenario: Gen[Scenario] = for {
    window <- Naive.overlapping
    lateness <- Gen.frequency(1 -> Gen.const(0L), 1 -> Gen.choose(0L, 20L))
    early <- Gen.option(Gen.zip(Gen.choose(1L, 30L), Gen.oneOf(true, false)))
    count <- Gen.option(Gen.choose(1L, 8L))
    onTime <- Gen.oneOf(true, false)
    delay <- Gen.choose(0L, 30L)
    begin <- Gen.choose(-120L, 60L)
    n <- Gen.choose(0, 15)
    batches <- Gen.listOfN(n, Gen.frequency(3 -> rowsOfBatch, 1 -> Gen.const(Nil)))
    walls <- Gen.listOfN(n, Gen.choose(0L, 20L)).map(_.scanLeft(1000L)(_ + _))
  } yield {
    val rules =
      AlignedRules(
        window,
        lateness,
        early.map { case (every, un) => EarlyFiring(every, un) },
        LatePolicy.Drop,
        Refinements(count, onTime && lateness > 0, accumulate = true)
      )
    val rows = batches.zipWithIndex.map { case (spread, i) => spread.map(_ + begin + 15L * i) }
    // The clock of a batch: the largest time of the batches before it less the delay, 0 until there is one.
    val clocks = rows
      .scanLeft(Option.empty[Long])((newest, times) => (newest ++ times).maxOption)
      .map(_.fold(0L)(newest => Math.max(0L, newest - delay)))
    val before = BatchClock.BeforeAllTime +: clocks
    Scenario(
      rules,
      rows.zipWithIndex.map { case (times, i) =>
        Batch(BatchClock(before(i), clocks(i), walls(i), times.nonEmpty), times)
      }
    )
  }

  /** The contract in its simplest form: every pane has its own rows. */
  private final class Contract(rules: AlignedRules) {
    private final class Pane(
        var rows: Vector[Long],
        var fired: Int,
        var event: Long,
        var wall: Long,
        var since: Int,
        var wasOnTime: Boolean
    )

    private val naive = Naive(rules)
    private val open = mutable.TreeMap.empty[Long, Pane]

    private def due(window: Long): BigInt = naive.end(window) + rules.allowedLateness

    def run(batch: Batch): Outcome = {
      val clock = batch.clock
      val late = batch.times.filter { t =>
        val (closed, entered) = naive.holding(t).map(_.toLong).partition(due(_) <= clock.before)
        entered.foreach { window =>
          val pane =
            open.getOrElseUpdate(window, new Pane(Vector.empty, 0, clock.now, clock.wall, 0, wasOnTime = false))
          pane.rows :+= t
          pane.since += 1
        }
        closed.nonEmpty && entered.isEmpty
      }
      val closing = open.toList.filter { case (window, _) => due(window) <= clock.now }
      closing.foreach { case (window, _) => open.remove(window) }
      val fired = for {
        (window, pane) <- open.toList
        kind <- kindOf(window, pane, batch)
      } yield {
        val fired = Fired(window, kind, pane.fired, pane.rows.sorted)
        pane.fired += 1
        pane.event = clock.now
        pane.wall = clock.wall
        pane.since = 0
        pane.wasOnTime ||= kind == "on_time"
        fired
      }
      val closes = closing.map { case (window, pane) => Fired(window, "close", pane.fired, pane.rows.sorted) }
      Outcome(late.sorted, (closes ++ fired).sortBy(_.window))
    }

    /** The firing of an open pane in a batch, if any. */
    private def kindOf(window: Long, pane: Pane, batch: Batch): Option[String] = {
      val clock = batch.clock
      val byInterval = rules.early.exists { early =>
        (pane.since > 0 || early.unchanged) &&
        (clock.now - pane.event >= early.every || (batch.times.isEmpty && clock.wall - pane.wall >= early.every))
      }
      val byCount = rules.refinements.count.exists(pane.since >= _)
      if (pane.wasOnTime) Option.when(pane.since > 0)("update")
      else if (rules.refinements.onTime && naive.end(window) <= clock.now) Some("on_time")
      else Option.when(byInterval || byCount)("early")
    }
  }

  /** One key's panes over shared slices, serialized between batches as in state. */
  private final class Parts(rules: AlignedRules) {
    import rules.grid

    private val slices = mutable.Map.empty[Long, Vector[Long]]
    private var stored = Array.emptyByteArray
    private var firingsHeld = Array.emptyByteArray

    def isEmpty: Boolean = slices.isEmpty && stored.isEmpty && firingsHeld.isEmpty

    def run(batch: Batch): Outcome = {
      val clock = batch.clock
      val set = SliceSet.fromBytes(stored)
      val firings = PaneFirings.fromBytes(firingsHeld)
      val firstOpenBefore =
        if (clock.before == BatchClock.BeforeAllTime) Long.MinValue else rules.firstOpen(clock.before)
      val firstOpenNow = rules.firstOpen(clock.now)

      val (late, inTime) = batch.times.partition(rules.isLate(_, clock))
      inTime.foreach { t =>
        val slice = grid.ordinalOf(t)
        set.add(slice)
        slices(slice) = slices.getOrElse(slice, Vector.empty) :+ t
        if (rules.firesOpen)
          (Math.max(firstOpenBefore, grid.firstWindow(slice)) to grid.lastWindow(slice))
            .foreach(firings.touch(_, 1, clock))
      }

      val forRows = firings.afterRows(rules, clock).toList.flatMap { case (window, kind) =>
        fireOpen(set, firings, kind, List(window), clock)
      }
      val closes =
        fire(set, firings, "close", windowsFrom(set, firstOpenBefore, w => clock.closes(rules.windowCloseDue(w))))
      if (closes.nonEmpty) {
        slices.keys.filter(_ < grid.firstSlice(firstOpenNow)).toList.foreach(slices.remove)
        set.removeBefore(grid.firstSlice(firstOpenNow))
        firings.removeBefore(firstOpenNow)
      }

      val ended = firings.onTime(firstOpenNow, rules, clock).toList
      val onTime = fireOpen(set, firings, FiringKind.OnTime, ended, clock)
      val early = rules.early.toList.flatMap { early =>
        fireOpen(set, firings, FiringKind.Early, firings.due(early, clock).toList, clock)
      }
      stored = set.toBytes
      firingsHeld = firings.toBytes
      Outcome(late.sorted, (forRows ++ closes ++ onTime ++ early).sortBy(_.window))
    }

    private def fireOpen(
        set: SliceSet,
        firings: PaneFirings,
        kind: FiringKind,
        windows: List[Long],
        clock: BatchClock
    ): List[Fired] = {
      val fired = fire(set, firings, kind.name, windows)
      windows.foreach(firings.fire(_, kind, clock))
      fired
    }

    private def windowsFrom(set: SliceSet, first: Long, wanted: Long => Boolean): List[Long] =
      Iterator
        .iterate(set.nextWindow(grid, first))(w => set.nextWindow(grid, w + 1))
        .takeWhile(w => w != SliceSet.None && wanted(w))
        .toList

    private def fire(set: SliceSet, firings: PaneFirings, kind: String, windows: List[Long]): List[Fired] = {
      val fold = new WindowFold[Vector[Long]]((_, slice) => slice, _ ++ _, (_, older, newer) => older ++ newer)
      var next = Long.MinValue
      windows.map { window =>
        fold.evictBefore(grid.firstSlice(window))
        next = set.atOrAfter(Math.max(next, grid.firstSlice(window)))
        while (next <= grid.lastSlice(window)) {
          fold.push(next, slices(next))
          next = set.atOrAfter(next + 1)
        }
        Fired(window, kind, firings.fired(window), if (fold.isEmpty) Vector.empty[Long] else fold.sum.sorted)
      }
    }
  }
}
