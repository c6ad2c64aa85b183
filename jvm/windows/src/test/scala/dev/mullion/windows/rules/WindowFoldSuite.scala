package dev.mullion.windows.rules

import scala.collection.immutable.TreeMap

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite
import dev.mullion.windows.sets.Naive
import dev.mullion.windows.spec.{AlignedWindow, EvenGrid}

/** Accumulators are words and their sum is concatenation, which detects a missing, repeated or misplaced slice. */
class WindowFoldSuite extends PropertySuite {
  import WindowFoldSuite._

  override def scalaCheckTestParameters = super.scalaCheckTestParameters.withMinSuccessfulTests(300)

  private final class Counted {
    var combined = 0
    private def inRoom(room: Words, text: String): Words =
      if (room eq null) new Words(text, isSum = true)
      else {
        assert(room.isSum, s"${room.text} is another's")
        room.text = text
        room
      }
    private val fold = new WindowFold[Words](
      (room, lent) => inRoom(room, lent.text),
      (older, newer) => {
        assert(older.isSum, s"${older.text} is another's")
        combined += 1
        older.text += newer.text
        older
      },
      (room, older, newer) => {
        assert((room ne older) && (room ne newer), s"${older.text} and ${newer.text} stay as they are")
        combined += 1
        inRoom(room, older.text + newer.text)
      }
    )
    // A borrowed accumulator is overwritten after the call.
    private def lending(word: String)(use: Words => Unit): Unit = {
      val lent = new Words(word, isSum = false)
      use(lent)
      lent.text = "another's"
    }
    def push(slice: Long, word: String): Unit = lending(word)(fold.push(slice, _))
    def keep(word: String): Unit = lending(word)(fold.keep)
    def keepAll(words: Seq[String]): Unit = fold.keepAll { kept =>
      assert(kept.isSum, s"${kept.text} is another's")
      kept.text ++= words.mkString
      kept
    }
    def keeps: Boolean = fold.keeps
    def evictBefore(slice: Long): Unit = fold.evictBefore(slice)
    def clear(): Unit = fold.clear()
    def sum: Option[String] =
      if (fold.isEmpty) { intercept[NoSuchElementException](fold.sum); None }
      else Some(fold.sum.text)
  }

  property("whatever is pushed and evicted, the sum is that of the remaining slices, in order of time") {
    forAll(Gen.listOf(step)) { steps =>
      val counted = new Counted
      var remaining = TreeMap.empty[Long, String]
      var newest = -20L
      steps.foreach {
        case Push(gap) =>
          newest += gap
          counted.push(newest, word(newest))
          remaining += newest -> word(newest)
        case Evict(distance) =>
          counted.evictBefore(newest + distance)
          remaining = remaining.rangeFrom(newest + distance)
        case Sum =>
          assertEquals(counted.sum, remaining.values.reduceOption(_ + _))
          // A second call returns the same.
          assertEquals(counted.sum, remaining.values.reduceOption(_ + _))
        case Clear =>
          counted.clear()
          remaining = remaining.empty
      }
      assertEquals(counted.sum, remaining.values.reduceOption(_ + _))
    }
  }

  property("kept slices come after all pushed ones and stay, whatever is evicted") {
    forAll(Gen.listOf(step), Gen.listOf(step)) { (before, after) =>
      val counted = new Counted
      var remaining = TreeMap.empty[Long, String]
      var newest = -20L
      before.foreach {
        case Push(gap)       => newest += gap; counted.push(newest, word(newest)); remaining += newest -> word(newest)
        case Evict(distance) =>
          counted.evictBefore(newest + distance); remaining = remaining.rangeFrom(newest + distance)
        case Sum   => assertEquals(counted.sum, remaining.values.reduceOption(_ + _))
        case Clear => counted.clear(); remaining = remaining.empty
      }
      val pushed = newest
      var keptText = ""
      after.foreach {
        // Several at once if one is kept.
        case Push(gap) if counted.keeps && gap > 1 =>
          val words = (newest + 1 to newest + gap).map(word)
          newest += gap
          counted.keepAll(words)
          keptText ++= words.mkString
        case Push(gap)       => newest += gap; counted.keep(word(newest)); keptText += word(newest)
        case Evict(distance) =>
          counted.evictBefore(pushed + distance); remaining = remaining.rangeFrom(pushed + distance)
        case Clear => counted.clear(); remaining = remaining.empty; keptText = ""
        case Sum   =>
          assertEquals(counted.sum, (remaining.values.toSeq ++ Seq(keptText).filter(_.nonEmpty)).reduceOption(_ + _))
      }
      assertEquals(counted.sum, (remaining.values.toSeq ++ Seq(keptText).filter(_.nonEmpty)).reduceOption(_ + _))
    }
  }

  test("a slice that is kept is added once, and a sum costs one combination more") {
    val counted = new Counted
    Seq(1L, 2L).foreach(n => counted.push(n, word(n)))
    Seq(3L, 4L, 5L).foreach(n => counted.keep(word(n)))
    assertEquals(counted.combined, 3)
    assertEquals(counted.sum, Some("<1><2><3><4><5>"))
    assertEquals(counted.combined, 4)
  }

  test("several slices are kept only after one, and not after a clear") {
    val counted = new Counted
    assert(!counted.keeps)
    intercept[NoSuchElementException](counted.keepAll(Seq("one")))
    counted.keep("one")
    assert(counted.keeps)
    counted.keepAll(Seq("two", "three"))
    assertEquals(counted.sum, Some("onetwothree"))
    counted.clear()
    assert(!counted.keeps)
  }

  property("each slice is combined at most twice, and each sum costs at most one combination more") {
    forAll(Gen.listOf(step)) { steps =>
      val counted = new Counted
      var newest = 0L
      steps.foreach {
        case Push(gap)       => newest += gap; counted.push(newest, "")
        case Evict(distance) => counted.evictBefore(newest + distance)
        case Clear           => counted.clear()
        case Sum             => counted.sum
      }
      val (pushes, sums) = (steps.count(_.isInstanceOf[Push]), steps.count(_ == Sum))
      assert(counted.combined <= 2 * pushes + sums, s"${counted.combined} for $pushes slices and $sums sums")
    }
  }

  property("the windows that fire, adjacent or far apart, get the sums of their slices") {
    forAll(fired) { case Fired(spec, times, chosen) =>
      val grid = new EvenGrid(spec)
      val slices = times.map(grid.ordinalOf).distinct.sorted
      val windows = chosen.map(grid.windowAt).distinct.sorted
      val counted = new Counted
      var unread = slices
      val sums = windows.map { window =>
        counted.evictBefore(grid.firstSlice(window))
        val (now, later) = unread.dropWhile(_ < grid.firstSlice(window)).span(_ <= grid.lastSlice(window))
        val shared = grid.firstSlice(windows.last)
        now.foreach(slice => if (slice < shared) counted.push(slice, word(slice)) else counted.keep(word(slice)))
        unread = later
        counted.sum
      }
      val naive = new Naive(spec)
      val expected = windows.map { window =>
        times.filter(naive.holds(window, _)).map(grid.ordinalOf).distinct.sorted.map(word).reduceOption(_ + _)
      }
      assertEquals(sums, expected)
    }
  }

  test("a window of a thousand slices costs as much as a window of ten") {
    def combinationsPerWindow(size: Long): Double = {
      val counted = new Counted
      val windows = 20000L
      (0L until windows).foreach { newest =>
        counted.evictBefore(newest - size + 1)
        counted.push(newest, "")
        counted.sum
      }
      counted.combined.toDouble / windows
    }
    assert(combinationsPerWindow(10) <= 3)
    assert(combinationsPerWindow(1000) <= 3)
  }

  test("nothing pushed has no sum") {
    assertEquals(new Counted().sum, None)
  }

  test("one slice is its own sum and costs no combination") {
    val counted = new Counted
    counted.push(7, "seven")
    assertEquals(counted.sum, Some("seven"))
    assertEquals(counted.combined, 0)
  }

  test("when all slices are evicted there is no sum, and the next slice begins a new one") {
    val fold = new Counted
    Seq(1L, 2L, 3L).foreach(n => fold.push(n, word(n)))
    fold.evictBefore(10)
    assertEquals(fold.sum, None)
    fold.push(12, "twelve")
    assertEquals(fold.sum, Some("twelve"))
  }
}

object WindowFoldSuite {

  /** Words that may be extended if they are a sum or a copy, but not if they are borrowed. */
  private final class Words(var text: String, val isSum: Boolean)

  private sealed trait Step
  private final case class Push(gap: Long) extends Step

  /** Evicts before a slice at this distance from the newest: some of the slices, all or none. */
  private final case class Evict(distance: Long) extends Step
  private case object Sum extends Step
  private case object Clear extends Step

  private val step: Gen[Step] = Gen.frequency(
    6 -> Gen.choose(1L, 3L).map(Push(_)),
    2 -> Gen.choose(-12L, 3L).map(Evict(_)),
    2 -> Gen.const(Sum),
    1 -> Gen.frequency(1 -> Gen.const(Clear), 4 -> Gen.const(Sum))
  )

  private def word(slice: Long): String = s"<$slice>"

  /** Rows of a key, and times in the windows that fire. */
  private final case class Fired(spec: AlignedWindow, times: List[Long], windowsAt: List[Long])

  private val fired: Gen[Fired] = for {
    spec <- Naive.overlapping
    times <- Gen.listOf(Naive.time)
    windowsAt <- Gen.listOf(Naive.time)
  } yield Fired(spec, times, windowsAt)
}
