package dev.mullion.windows.sets

import java.util.TreeSet

import scala.jdk.CollectionConverters._

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite
import dev.mullion.windows.spec.{AlignedWindow, EvenGrid}

class SliceSetSuite extends PropertySuite {
  import SliceSetSuite._

  override def scalaCheckTestParameters = super.scalaCheckTestParameters.withMinSuccessfulTests(300)

  private def assertSame(set: SliceSet, model: TreeSet[java.lang.Long], probes: Seq[Long]): Unit = {
    assertEquals(set.toSeq, model.asScala.toSeq.map(_.longValue))
    assertEquals(set.isEmpty, model.isEmpty)
    if (!model.isEmpty) {
      assertEquals(set.first, model.first.longValue)
      assertEquals(set.last, model.last.longValue)
    }
    probes.foreach { n =>
      assertEquals(set.contains(n), model.contains(n), s"$n in $set")
      assertEquals(set.atOrAfter(n), Option(model.ceiling(n)).fold(SliceSet.None)(_.longValue), s"after $n in $set")
      for (count <- Seq(1, 8, 64)) {
        val there = (0 until count).filter(i => n <= Long.MaxValue - i && model.contains(n + i))
        assertEquals(set.bits(n, count), there.map(1L << _).sum, s"$count from $n in $set")
      }
    }
  }

  property("whatever is added, removed, written and read, it is the set that a tree would be") {
    forAll(Gen.listOf(change)) { changes =>
      var set = SliceSet.empty
      val model = new TreeSet[java.lang.Long]()
      changes.foreach {
        case Add(n)          => assertEquals(set.add(n), model.add(n), s"whether $n was new")
        case RemoveBefore(n) =>
          set.removeBefore(n)
          model.headSet(n).clear()
        case WriteAndRead => set = SliceSet.fromBytes(set.toBytes)
      }
      assertSame(set, model, -45L to 45L)
    }
  }

  property("slices at the ends of time are kept as others are") {
    forAll(Gen.listOf(Naive.anyTime.suchThat(_ != SliceSet.None)), Naive.anyTime) { (slices, from) =>
      val set = setOf(slices)
      val model = new TreeSet[java.lang.Long](slices.map(Long.box).asJava)
      val probes = slices.flatMap(n => Seq(n - 1, n, n + 1)).filter(_ != SliceSet.None)
      assertSame(SliceSet.fromBytes(set.toBytes), model, probes)
      set.removeBefore(from)
      model.headSet(from).clear()
      assertSame(set, model, probes)
    }
  }

  property("the same slices have the same bytes, in whatever order they came") {
    forAll(Gen.listOf(ordinal)) { slices =>
      val bytes = setOf(slices).toBytes.toSeq
      assertEquals(setOf(slices.sorted).toBytes.toSeq, bytes)
      assertEquals(setOf(slices.sorted.reverse).toBytes.toSeq, bytes)
    }
  }

  test("a key with a row in every slice has a record that does not grow with them") {
    val first = 1L << 40
    val some = setOf(first until first + 10)
    val many = setOf(first until first + 100000)
    // Of the run's two numbers only the length grew, by two varint bytes.
    assert(many.toBytes.length <= some.toBytes.length + 2, many.toBytes.length.toString)
    assertEquals(many.toString, s"SliceSet($first..${first + 99999})")
  }

  test("nothing takes no bytes") {
    assertEquals(SliceSet.empty.toBytes.length, 0)
    assert(SliceSet.fromBytes(Array.emptyByteArray).isEmpty)
  }

  test("an empty set has neither a first nor a last slice") {
    intercept[IllegalArgumentException](SliceSet.empty.first)
    intercept[IllegalArgumentException](SliceSet.empty.last)
  }

  property("the next window is the first at or after the one asked for that holds a row") {
    forAll(rows) { rows =>
      import rows._
      assertEquals(set.nextWindow(grid, from), holding.headOption.getOrElse(SliceSet.None))
    }
  }

  property("going from one next window to the next visits every window that holds a row, once") {
    forAll(rows) { rows =>
      import rows._
      val visited =
        Iterator.iterate(set.nextWindow(grid, from))(w => set.nextWindow(grid, w + 1)).takeWhile(_ != SliceSet.None)
      assertEquals(visited.toList, holding)
    }
  }

  property("windows are counted once, however many of their slices have rows") {
    forAll(rows) { rows =>
      import rows._
      assertEquals(set.countWindows(grid, from), holding.size.toLong)
    }
  }

  test("in the first batch, a row before the epoch has windows, also where the slide does not divide the size") {
    val grid = new EvenGrid(AlignedWindow.sliding(5, 2))
    val set = setOf(Seq(grid.ordinalOf(-1)))
    assertEquals(set.nextWindow(grid, Long.MinValue), grid.firstWindow(grid.ordinalOf(-1)))
  }
}

object SliceSetSuite {
  private sealed trait Change
  private final case class Add(ordinal: Long) extends Change
  private final case class RemoveBefore(ordinal: Long) extends Change
  private case object WriteAndRead extends Change

  private def setOf(slices: Iterable[Long]): SliceSet = {
    val set = SliceSet.empty
    slices.foreach(set.add)
    set
  }

  /** The slices of some rows, and a window to look for more from. */
  private final case class Rows(spec: AlignedWindow, times: List[Long], from: Long) {
    private val naive = new Naive(spec)
    val grid = new EvenGrid(spec)
    val set = setOf(times.filter(naive.holding(_).nonEmpty).map(grid.ordinalOf))

    /** The windows at or after `from` that hold a row. */
    val holding = times.flatMap(naive.holding(_)).map(_.toLong).filter(_ >= from).distinct.sorted
  }

  private val rows: Gen[Rows] = for {
    spec <- Naive.spec
    times <- Gen.listOf(Naive.time)
    // In the first batch no window has closed yet, and the search begins before all windows.
    from <- Gen.frequency(4 -> Gen.choose(-150L, 150L), 1 -> Gen.const(Long.MinValue))
  } yield Rows(spec, times, from)

  private val ordinal: Gen[Long] = Gen.choose(-40L, 40L)

  private val change: Gen[Change] =
    Gen.frequency(12 -> ordinal.map(Add(_)), 1 -> ordinal.map(RemoveBefore(_)), 1 -> Gen.const(WriteAndRead))
}
