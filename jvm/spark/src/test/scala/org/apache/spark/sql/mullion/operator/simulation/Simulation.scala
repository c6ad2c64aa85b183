package org.apache.spark.sql.mullion.operator.simulation

import java.util.SplittableRandom

import scala.annotation.tailrec
import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.state.rocksdb.SimulatedState

/** The life of a query under one seed: its window, its rows and clocks, and its faults. Engines, records in memory with
  * their versions, and segments are Mullion's; executors, the store and the driver are simulated. The output of each
  * batch is compared with [[Contract]].
  *
  * {{{
  *   driver      plan a batch - tasks - commit              dies between the two, and plans the same batch again
  *   task        open - rows - firings - commit             dies anywhere; runs again, or twice at once, elsewhere
  *   executor    versions in memory                         is lost
  *   clocks                                                 jump
  * }}}
  */
private[simulation] final class Simulation(seed: Long) {
  import Contract._
  import Simulation._

  private val random = new SplittableRandom(seed)

  private def chance(percent: Int): Boolean = random.nextInt(100) < percent
  private def upTo(n: Long): Long = random.nextLong(n + 1)
  private def some[T](percent: Int)(of: => T): Option[T] = Option.when(chance(percent))(of)

  private val terms: Terms = {
    val (size, gap) = (1 + upTo(29), 1 + upTo(19))
    val shape = random.nextInt(20) match {
      case n if n < 7  => Grid(size, size + (if (chance(30)) upTo(10) else 0L), upTo(200) - 100)
      case n if n < 12 => Grid(size + 1, 1 + upTo(size - 1), upTo(200) - 100)
      case n if n < 17 => Sessions(gap)
      case _           => Around(upTo(15), upTo(15))
    }
    val lateness = if (chance(50)) 0L else upTo(20)
    val (every, count) = (some(40)(1 + upTo(29)), some(20)(1 + upTo(5)))
    val onTime = lateness > 0 && chance(40)
    val mayClear = (every.isDefined || count.isDefined || onTime) && (shape match {
      case Grid(_, _, _) | Sessions(_) => true
      case Around(_, _)                => false
    })
    val late = shape match {
      case Grid(_, _, _) => Seq("drop", "emit", "reopen", "reopen each")(random.nextInt(4))
      case _             => Seq("drop", "emit", "reopen")(random.nextInt(3))
    }
    Terms(
      shape,
      lateness,
      every,
      chance(30),
      every.isDefined && chance(20),
      count,
      onTime,
      !(mayClear && chance(30)),
      late,
      shape match {
        case Grid(_, _, _) => chance(30)
        case _             => false
      }
    )
  }

  // The size of each executor's cache: unbounded, random for each attempt (None), 2 kB or no cache.
  private val cache: Option[Long] = Seq(Some(1L << 40), None, Some(2048L), Some(0L))((seed & 3).toInt)

  // With a cache of one size, partitions have several keys each.
  private val keys = (if (cache.isEmpty) 1 else 4) + random.nextInt(5)

  private val batches: Vector[Batch] = {
    val (delay, begin) = (upTo(30), upTo(180) - 120)
    // The driver's wall clock never moves back, even if the machine's does.
    var (clock, machine, wall, before, first) = (0L, 1000L, 1000L, Option.empty[Long], Option.empty[Long])
    val withRows = Vector.tabulate(2 + random.nextInt(8)) { number =>
      val rows =
        if (chance(25)) Vector.empty
        else
          Vector.fill(1 + random.nextInt(12))(
            Row(random.nextInt(keys).toLong, begin + 15 * number + upTo(80) - 60, random.nextLong(1L << 40))
          )
      machine += upTo(20) + (if (chance(4)) 1000 + upTo(100000) else 0L) - (if (chance(4)) upTo(500) else 0L)
      wall = Math.max(wall, machine)
      first = first.orElse(Option.when(clock > 0)(clock))
      val batch = Batch(number.toLong, rows, before, clock, wall, rows.nonEmpty, first)
      before = Some(clock)
      clock = Math.max(clock, rows.map(_.time).maxOption.fold(0L)(_ - delay))
      // For example after a row from the future, or with an idle source's clock.
      if (chance(4)) clock += upTo(200)
      if (rows.isEmpty && chance(30)) clock += upTo(20)
      batch
    }
    // All panes of rows close by then; windows without rows never end.
    val end = if (terms.empty) clock + 200 else 1000000L
    withRows :+ Batch(
      withRows.length.toLong,
      Vector.empty,
      before,
      end,
      wall + 1,
      rowsCame = false,
      first.orElse(Some(end))
    )
  }

  private val contract = new Contract(terms)
  private val expected: Vector[Vector[Out]] = batches.map(contract.run(_).sorted)

  private val drawnRooms = if (chance(50)) Seq(1L << 40) else Seq(0L, 1500L, 6000L, 1L << 40, 1L << 40)
  private val rooms = cache.fold(drawnRooms)(Seq(_))
  private val query = new SimulatedQuery(terms, countsRows = chance(50))
  private val state = new SimulatedState(query.program.families)

  private val executors = 1 + random.nextInt(3)
  private val home = Array.fill(Partitions)(random.nextInt(executors))
  // Of each version whose batch is committed.
  private val ids = mutable.Map[Long, Array[Option[String]]](0L -> Array.fill(Partitions)(None))
  private var calamities = random.nextInt(7)
  private val figures = new Figures
  private var restarts = 0

  def run(): Figures =
    try {
      var number = 0L
      while (number < batches.length) number = batch(number)
      figures.cases += 1
      figures
    } catch {
      case e: Throwable =>
        throw new AssertionError(
          s"seed $seed ($terms, rooms $rooms): ${e.getMessage}. Again: make simulation SEED=$seed",
          e
        )
    } finally state.close()

  /** True if a fault of this life occurs now. */
  private def strikes(percent: Int): Boolean = calamities > 0 && chance(percent) && { calamities -= 1; true }

  /** Plans and runs a batch. Returns the number of the next one. */
  private def batch(number: Long): Long = {
    val planned = batches(number.toInt)
    figures.batches += 1
    val worked = Vector.range(0, Partitions).map(task(planned, _))
    val out = worked.flatMap(_._1.out).sorted
    val wanted = expected(number.toInt)
    if (out != wanted)
      throw new AssertionError(
        s"batch $number of ${batches.take(number.toInt + 1)} emitted ${out.diff(wanted)} and not ${wanted.diff(out)}"
      )
    figures.firings += out.length
    if (number == batches.length - 1) {
      val (panes, records) = worked.map(_._1.totals).unzip
      // A key that is never forgotten has a record and a timer.
      if (panes.exists(_ != 0) || records.sum != 2L * contract.knownKeys)
        throw new AssertionError(s"$panes panes and $records records are left")
    }
    if (strikes(8)) restart(number)
    else {
      ids(number + 1) = worked.map(_._2).toArray
      if (strikes(8)) restart(number + 1) else number + 1
    }
  }

  /** All executors and the driver are lost; the driver continues from the last version. */
  private def restart(number: Long): Long = {
    figures.restarts += 1
    restarts += 1
    if (restarts > 20) throw new AssertionError(s"it starts again and again before batch $number")
    (0 until executors).foreach(state.lose)
    number
  }

  /** A task of a batch, as often as needed. */
  private def task(batch: Batch, partition: Int): (SimulatedQuery.Worked, Option[String]) = {
    // Each attempt has its rows in another order.
    def input = query.input(batch, _.key % Partitions == partition, 1 + random.nextInt(3), mixed)
    val from = ids(batch.number)(partition)

    def open(executor: Int) = {
      figures.attempts += 1
      state.open(executor, partition, batch.number, from, rooms(random.nextInt(rooms.length)))
    }

    def work(opened: SimulatedState.Opened, dies: Option[Int] = None) =
      try query.attempt(batch, input, opened.partition, dies)
      catch { case e: Throwable => opened.abort(); throw e }

    def commit(opened: SimulatedState.Opened): Option[String] =
      try {
        opened.partition.commit()
        opened.id()
      } catch { case e: Throwable => opened.abort(); throw e }

    // If one of two attempts fails, the other is aborted as well.
    def beside[T](other: SimulatedState.Opened)(body: => T): T =
      try body
      catch { case e: Throwable => other.abort(); throw e }

    @tailrec
    def attempt(left: Int, elsewhere: Boolean): (SimulatedQuery.Worked, Option[String]) = {
      val executor = if (elsewhere) random.nextInt(executors) else home(partition)
      val done =
        try {
          if (!strikes(12)) {
            val opened = open(executor)
            val worked = work(opened)
            Some((worked, commit(opened), executor))
          } else
            random.nextInt(5) match {
              case 0 =>
                figures.killed += 1
                val opened = open(executor)
                work(opened, Some(random.nextInt(8)))
                opened.abort()
                throw new SimulatedQuery.Died
              case 1 =>
                // It dies after everything but the commit.
                figures.killed += 1
                val opened = open(executor)
                work(opened)
                opened.abort()
                throw new SimulatedQuery.Died
              case 2 =>
                // Its commit is not reported.
                figures.killed += 1
                val opened = open(executor)
                work(opened)
                commit(opened)
                throw new SimulatedQuery.Died
              case 3 =>
                figures.twice += 1
                val other = if (chance(50)) executor else random.nextInt(executors)
                val one = open(executor)
                val two = beside(one)(open(other))
                val (first, second) = (beside(two)(work(one)), beside(one)(work(two)))
                if (first.out.sorted != second.out.sorted)
                  throw new AssertionError(s"attempts emitted ${first.out} and ${second.out}")
                val (of, to) = (beside(two)(commit(one)), commit(two))
                Some(if (chance(50)) (first, of, executor) else (second, to, other))
              case _ =>
                figures.executors += 1
                state.lose(random.nextInt(executors))
                None
            }
        } catch {
          case _: SimulatedQuery.Died => None
        }
      done match {
        case Some((worked, id, on)) =>
          home(partition) = on
          (worked, id)
        case None if left == 0 => throw new AssertionError("no attempt came through")
        case None              => attempt(left - 1, elsewhere = chance(30))
      }
    }
    attempt(20, elsewhere = chance(20))
  }

  private def mixed(rows: Vector[UnsafeRow]): Vector[UnsafeRow] = {
    val order = rows.toArray
    (order.length - 1 to 1 by -1).foreach { i =>
      val j = random.nextInt(i + 1)
      val swapped = order(i)
      order(i) = order(j)
      order(j) = swapped
    }
    order.toVector
  }
}

private[simulation] object Simulation {
  private val Partitions = 2

  private implicit val order: Ordering[Contract.Out] =
    Ordering.by(out => (out.key, out.start, out.end, out.firing, out.seq, out.rows, out.sum))

  /** Counts over all cases. */
  final class Figures {
    var cases, batches, attempts, firings, restarts, killed, twice, executors = 0L

    def add(other: Figures): Unit = {
      cases += other.cases
      batches += other.batches
      attempts += other.attempts
      firings += other.firings
      restarts += other.restarts
      killed += other.killed
      twice += other.twice
      executors += other.executors
    }

    override def toString: String =
      s"cases $cases, batches $batches, attempts $attempts, firings $firings, restarts $restarts, attempts killed $killed, " +
        s"run twice $twice, executors lost $executors"
  }

  /** Runs cases from a seed on, for a number of cases or a time. */
  def run(from: Long, cases: Long, until: Long = Long.MaxValue): Figures = {
    // Nothing is compiled for a query that runs ten batches.
    val conf = new SQLConf
    conf.setConfString("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    conf.setConfString("spark.sql.subexpressionElimination.enabled", "false")
    val all = new Figures
    SQLConf.withExistingConf(conf) {
      var seed = from
      while (seed < from + cases && System.nanoTime() < until) {
        all.add(new Simulation(seed).run())
        seed += 1
      }
    }
    all
  }

  /** The environment variables `SEED` and `CASES` select the cases. */
  def main(args: Array[String]): Unit = {
    def number(name: String) = sys.env.get(name).filter(_.nonEmpty).map(_.toLong)
    val from = number("SEED")
    val began = System.nanoTime()
    val figures = run(from.getOrElse(0L), number("CASES").getOrElse(if (from.isDefined) 1L else 100000L))
    val seconds = (System.nanoTime() - began) / 1e9
    println(f"$figures, seconds $seconds%.1f, cases a second ${figures.cases / seconds}%.0f")
  }
}
