package org.apache.spark.sql.mullion.operator.engine.aligned

import scala.collection.immutable.TreeMap
import scala.util.{Random, Using}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.aggregate.{Average, Count, DeclarativeAggregate, Max, Min, Sum}
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.operator.engine.accumulators.Accumulators
import org.apache.spark.sql.mullion.operator.engine.timers.TimedKey
import org.apache.spark.sql.mullion.state.btree.MemoryFamily
import org.apache.spark.sql.mullion.state.record.{Family, FamilySpec, RecordOrder}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.windows.sets.SliceSet
import dev.mullion.{MullionSuite, TestSeed}

/** Compares slices in blocks with a map. */
class SlicesInBlocksSuite extends MullionSuite {
  import SlicesInBlocksSuite._

  for ((where, first) <- Seq("about zero" -> -20L, "at the start of time" -> Long.MinValue, "at its end" -> LastFirst))
    test(s"slices $where are those that rows came to, whatever batches do") {
      val seed = TestSeed.value
      val random = new Random(seed)
      val run = new Run
      (1 to 400).foreach { batch =>
        val keys = random.shuffle(Keys).take(1 + random.nextInt(3))
        // Keys with equal numbers are interleaved.
        (1 to random.nextInt(12)).foreach { _ =>
          val key = keys(random.nextInt(keys.length))
          val ordinal = first + random.nextInt(Span)
          if (ordinal >= run.liveOf(key))
            run.add(key, ordinal, if (random.nextInt(9) == 0) None else Some(random.nextLong()))
        }
        run.flush()
        keys.foreach { key =>
          run.assertRange(key, first + random.nextInt(Span), first + random.nextInt(Span), s"seed $seed, batch $batch")
          if (random.nextInt(4) == 0) run.removeBefore(key, first + random.nextInt(Span))
          else if (random.nextInt(20) == 0) run.begin(key)
        }
      }
      Keys.foreach(run.removeBefore(_, first + Span))
      assertEquals(run.records, 0, s"seed $seed")
    }

  test("slices with a record each continue in blocks, and leave none behind") {
    val seed = TestSeed.value
    val random = new Random(seed)
    val run = new Run
    (1 to 50).foreach { batch =>
      val key = Keys(random.nextInt(Keys.length))
      run.begin(key)
      (0L until Span.toLong).filter(_ => random.nextBoolean()).foreach(run.addEach(key, _, Some(random.nextLong())))
      (1 to 5).foreach { _ =>
        (1 to random.nextInt(8)).foreach { _ =>
          val ordinal = random.nextInt(Span).toLong
          if (ordinal >= run.liveOf(key)) run.add(key, ordinal, Some(random.nextLong()))
        }
        run.flush()
        run.assertRange(key, 0L, Span.toLong, s"seed $seed, batch $batch")
        run.removeBefore(key, run.liveOf(key) + random.nextInt(Span / 2))
        run.assertRange(key, run.liveOf(key), Span.toLong, s"seed $seed, batch $batch")
      }
      run.removeBefore(key, Span.toLong)
      assertEquals(run.records, 0, s"seed $seed, batch $batch")
    }
  }

  for ((name, functions) <- Seq("doubles and longs" -> doubles _, "longs" -> longs _); isAnsi <- Seq(true, false))
    test(s"slices that a sum keeps from blocks are added in order, as one by one: $name, ANSI $isAnsi") {
      val seed = TestSeed.value
      val random = new Random(seed)
      val ofMode = withConf(isAnsi)(functions())
      val run = new Folded(ofMode)
      var (sums, errors) = (0, 0)
      (1 to 300).foreach { _ =>
        val first = Seq(-20L, Long.MinValue, LastFirst)(random.nextInt(3))
        val values = (0 until Span).filter(_ => random.nextBoolean()).map(first + _ -> run.slice(random))
        val from = first + random.nextInt(Span / 2)
        val shared = from + random.nextInt(Span / 2)
        val ends = Seq.fill(1 + random.nextInt(4))(first + random.nextInt(Span)).sorted
        // A window ends where it begins, or later.
        val lasts = ends.zipWithIndex.map { case (end, window) => Math.max(end, from + window) }
        val inBlocks = run.sums(values, from, shared, lasts, inBlocks = true)
        assertEquals(inBlocks, run.sums(values, from, shared, lasts, inBlocks = false), s"seed $seed")
        // Wrapping sums are equal in any order.
        if (name == "longs" && !isAnsi)
          assertEquals(inBlocks, run.copied(values, from, shared, lasts).map(Right(_)), s"seed $seed")
        if (inBlocks.exists(_.isRight)) sums += 1
        if (inBlocks.exists(_.isLeft)) errors += 1
      }
      assert(sums > 20, s"$sums sums")
      // For the others the setting alone does not determine whether a long may wrap.
      if (name == "longs") assertEquals(clue(errors) > 20, isAnsi)
    }

  test("slices up to one are distinguished wherever a block is in time") {
    assertEquals(SliceBlock.upTo(0xff, 0L), 0x01)
    assertEquals(SliceBlock.upTo(0xb5, 2L), 0x05)
    assertEquals(SliceBlock.upTo(0xb5, 6L), 0x35)
    assertEquals(SliceBlock.upTo(0xb5, 7L), 0xb5)
    assertEquals(SliceBlock.upTo(0xb5, -1L), 0xb5)
  }

  test("eight slices that follow each other are one record, and a ninth begins another") {
    val run = new Run
    (0L until 8L).foreach(run.add("a", _, Some(1L)))
    run.flush()
    assertEquals(run.records, 1)
    run.add("a", 8L, Some(1L))
    run.flush()
    assertEquals(run.records, 2)
  }

  test("a record goes with the last of its slices, also where the key has later ones") {
    val run = new Run
    Seq(0L, 3L, 9L).foreach(run.add("a", _, Some(1L)))
    run.flush()
    run.removeBefore("a", 3L)
    assertEquals(run.records, 2)
    run.removeBefore("a", 5L)
    assertEquals(run.records, 1)
  }

  test("accumulators lie in blocks where all have one width, and few columns") {
    assert(SliceBlock.mayHold(Seq(LongType, DoubleType, BooleanType, DecimalType(18, 2), TimestampType)))
    assert(!SliceBlock.mayHold(Seq(LongType, StringType)))
    assert(!SliceBlock.mayHold(Seq(DecimalType(19, 2))))
    assert(!SliceBlock.mayHold(Seq.fill(16)(LongType)))
    assert(!SliceBlock.mayHold(Nil))
  }
}

object SlicesInBlocksSuite {
  private val Span = 40
  private val LastFirst = Long.MaxValue - Span
  private val Keys = Seq("a", "b", null)

  private val value = AttributeReference("v", LongType)()
  private val functions = Seq(Count(value), Max(value), Average(value))
  private val buffers = functions.flatMap(_.aggBufferAttributes)
  private val partial = functions.flatMap(_.inputAggBufferAttributes)
  private val accumulators = new Accumulators(functions, Nil, partial, 0)

  private val spec = FamilySpec(
    "slices",
    new StructType().add("key0", StringType).add("ordinal", LongType, nullable = false),
    Accumulators.schema(functions, Nil),
    RecordOrder.WithinKey
  )
  private val keyRow = UnsafeProjection.create(Array[DataType](StringType))
  private val partialRow = UnsafeProjection.create(partial.map(_.dataType).toArray)

  private def partialOf(v: Option[Long]): UnsafeRow =
    partialRow(InternalRow(v.size.toLong, v.orNull, v.fold(0.0)(_.toDouble), v.size.toLong)).copy()

  /** The content of slices: the number of values, the greatest, and their sum. */
  private type Held = (Long, Option[Long], Double)

  private final class Run {
    private val family: Family = MemoryFamily(spec)
    private val timed = new TimedKey(Seq(StringType), RecordOrder.WithinKey)
    private val slices = new SlicesInBlocks(family, timed, accumulators, buffers.length)
    private val rows = Keys.map(key => key -> keyRow(InternalRow(UTF8String.fromString(key))).copy()).toMap
    private val ordinals = Keys.map(_ -> SliceSet.empty).toMap
    private var live = Keys.map(_ -> Long.MinValue).toMap
    private var model = Keys.map(_ -> TreeMap.empty[Long, Held]).toMap

    def liveOf(key: String): Long = live(key)

    def records: Int = Using.resource(family.all())(_.size)

    def add(key: String, ordinal: Long, v: Option[Long]): Unit = {
      val isNew = ordinals(key).add(ordinal)
      slices.add(rows(key), ordinals(key), ordinal, isNew, partialOf(v))
      note(key, ordinal, v)
    }

    /** The form before there were blocks. */
    def addEach(key: String, ordinal: Long, v: Option[Long]): Unit = {
      ordinals(key).add(ordinal)
      family.insert(timed(ordinal, rows(key)), accumulators.rest(accumulators.open(partialOf(v))))
      note(key, ordinal, v)
    }

    private def note(key: String, ordinal: Long, v: Option[Long]): Unit = {
      val (count, most, sum) = model(key).getOrElse(ordinal, (0L, None, 0.0))
      val now = (count + v.size, (most ++ v).maxOption, sum + v.fold(0.0)(_.toDouble))
      model += key -> model(key).updated(ordinal, now)
    }

    def flush(): Unit = slices.flush()

    def removeBefore(key: String, before: Long): Unit = {
      slices.removeBefore(rows(key), ordinals(key), before)
      ordinals(key).removeBefore(before)
      live += key -> Math.max(live(key), before)
      model += key -> model(key).rangeFrom(before)
    }

    /** A key without slices may return with earlier ones. */
    def begin(key: String): Unit = {
      removeBefore(key, SliceSet.None)
      live += key -> Long.MinValue
    }

    def assertRange(key: String, from: Long, until: Long, clue: String): Unit = {
      // Closed slices are unused.
      val first = Math.max(from, live(key))
      val scan = slices.range(rows(key), first, until)
      val results = Vector.newBuilder[(Long, Held)]
      try
        while (scan.isOn && scan.ordinal < until) {
          if (scan.ordinal % 2 == 0) scan.hold()
          val sum = scan.sum
          val most = Option.unless(sum.isNullAt(1))(sum.getLong(1))
          results += scan.ordinal -> ((sum.getLong(0), most, sum.getDouble(2)))
          scan.move()
        }
      finally scan.close()
      munit.Assertions.assertEquals(results.result(), model(key).rangeFrom(first).rangeUntil(until).toVector, clue)
    }
  }

  private def doubles() = Seq(Count(value), Max(value), Average(value), Sum(AttributeReference("d", DoubleType)()))
  private def longs() = Seq(Count(value), Sum(value), Min(value), Max(value))

  private def withConf[A](isAnsi: Boolean)(body: => A): A = {
    val conf = new SQLConf()
    conf.setConf(SQLConf.ANSI_ENABLED, isAnsi)
    SQLConf.withExistingConf(conf)(body)
  }

  /** Sums of windows over slices, of other functions. */
  private final class Folded(functions: Seq[DeclarativeAggregate]) {
    private val partial = functions.flatMap(_.inputAggBufferAttributes)
    private val accumulators = new Accumulators(functions, Nil, partial, 0)
    private val toRow = UnsafeProjection.create(partial.map(_.dataType).toArray)
    private val timed = new TimedKey(Seq(StringType), RecordOrder.WithinKey)
    private val key = keyRow(InternalRow(UTF8String.fromString("a"))).copy()
    private val ends = Seq(Long.MaxValue, Long.MinValue, Long.MaxValue / 2)

    def slice(random: Random): UnsafeRow = toRow(InternalRow(partial.map {
      case a if a.dataType == DoubleType              => random.nextGaussian()
      case a if a.nullable && random.nextInt(40) == 0 => None.orNull
      case a if a.nullable && random.nextInt(12) == 0 => ends(random.nextInt(ends.length))
      case _                                          => random.nextInt().toLong
    }: _*)).copy()

    /** The same from the slices of each window, none of which is changed. */
    def copied(values: Seq[(Long, UnsafeRow)], from: Long, shared: Long, lasts: Seq[Long]): Seq[Option[UnsafeRow]] =
      lasts.zipWithIndex.map { case (last, window) =>
        val first = Math.min(from + window, shared)
        val sums = values.collect { case (ordinal, row) if ordinal >= first && ordinal <= last => row }
        sums.reduceOption(accumulators.combine(_, _).copy())
      }

    /** The sum of each window, if it has one, up to the first with an error.
      *
      * @param shared
      *   the slice from which on slices are kept
      * @param lasts
      *   the last slices of consecutive windows
      */
    def sums(
        values: Seq[(Long, UnsafeRow)],
        from: Long,
        shared: Long,
        lasts: Seq[Long],
        inBlocks: Boolean
    ): Seq[Either[String, Option[UnsafeRow]]] = {
      val family: Family = MemoryFamily(spec.copy(value = Accumulators.schema(functions, Nil)))
      val slices = new SlicesInBlocks(family, timed, accumulators, partial.length)
      val ordinals = SliceSet.empty
      values.foreach { case (ordinal, row) => slices.add(key, ordinals, ordinal, ordinals.add(ordinal), row) }
      slices.flush()
      val fold = accumulators.newFold
      val scan = slices.range(key, from, values.lastOption.fold(from)(_._1) + 1)
      val scanned = if (inBlocks) scan else new OneByOne(scan)
      def sum(last: Long, window: Int): Option[UnsafeRow] = {
        fold.evictBefore(Math.min(from + window, shared))
        while (scanned.isOn && scanned.ordinal <= last && scanned.ordinal < shared) {
          fold.push(scanned.ordinal, scanned.sum)
          scanned.move()
        }
        scanned.keepIn(fold, last)
        Option.unless(fold.isEmpty)(fold.sum.copy())
      }
      val results = Seq.newBuilder[Either[String, Option[UnsafeRow]]]
      // An error ends the task.
      try {
        lasts.zipWithIndex.foreach { case (last, window) => results += Right(sum(last, window)) }
        results.result()
      } catch { case e: ArithmeticException => (results += Left(e.getMessage)).result() }
      finally scan.close()
    }
  }

  /** A scan without support for blocks. */
  private final class OneByOne(scan: SliceScan) extends SliceScan {
    override def isOn: Boolean = scan.isOn
    override def ordinal: Long = scan.ordinal
    override def sum: UnsafeRow = scan.sum
    override def move(): Unit = scan.move()
    override def hold(): Unit = scan.hold()
    override def close(): Unit = scan.close()
  }
}
