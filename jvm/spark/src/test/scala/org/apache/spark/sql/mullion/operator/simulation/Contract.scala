package org.apache.spark.sql.mullion.operator.simulation

import scala.collection.mutable

/** The pane contract in its slowest and simplest form: every open pane has its own rows, and all of them are checked in
  * every batch. It shares no code with the implementation: no slices, no timers, no queues, and no class of the
  * product.
  */
private[simulation] final class Contract(terms: Contract.Terms) {
  import Contract._

  private final class Pane(val end: Long, var event: Long, var wall: Long) {
    var rows: Vector[Row] = Vector.empty
    var fired = 0
    var since = 0
    var wasOnTime = false
  }

  // By key and start, which is unique, because sessions of a key never begin together.
  private val open = mutable.TreeMap.empty[(Long, Long), Pane]
  // Where windows without rows close too: the start of a key's next one to close.
  private val nextStarts = mutable.TreeMap.empty[Long, Long]
  // Windows around rows need rows of earlier batches.
  private val rowsOfKey = mutable.Map.empty[Long, Vector[Row]]

  /** The keys that are never forgotten. */
  def knownKeys: Int = nextStarts.size

  /** The output of a batch. */
  def run(batch: Batch): Vector[Out] = {
    val out = Vector.newBuilder[Out]
    val late = terms.shape match {
      case grid: Grid          => enterGrid(grid, batch, out)
      case Sessions(gap)       => enterSessions(gap, batch, out)
      case Around(back, ahead) => enterAround(back, ahead, batch, out)
    }
    if (terms.late == "emit") late.foreach(row => out += Out(row.key, 0L, 0L, "late", 0, 1L, row.value))
    closeEmpty(batch, out)
    open.toVector.foreach { case ((key, start), pane) =>
      val closes = batch.clock >= pane.end + terms.lateness
      val firing = if (closes) Some("close") else fires(pane, batch)
      firing.foreach { kind =>
        out += shown(key, start, pane.end, kind, pane.fired, pane.rows)
        pane.fired += 1
        pane.since = 0
        pane.event = batch.clock
        pane.wall = batch.wall
        pane.wasOnTime ||= kind == "on_time"
        if (!terms.accumulate) pane.rows = Vector.empty
      }
      if (closes) open.remove((key, start))
    }
    out.result()
  }

  private def closeEmpty(batch: Batch, out: mutable.Growable[Out]): Unit = terms.shape match {
    case Grid(size, slide, _) =>
      nextStarts.keys.toVector.foreach { key =>
        while (batch.clock >= nextStarts(key) + size + terms.lateness) {
          val start = nextStarts(key)
          if (!open.contains((key, start))) out += shown(key, start, start + size, "close", 0, Vector.empty)
          nextStarts(key) = start + slide
        }
      }
    case _ =>
  }

  /** The firing of an open pane that does not close. */
  private def fires(pane: Pane, batch: Batch): Option[String] =
    if (pane.wasOnTime) Option.when(pane.since > 0)("update")
    else if (terms.onTime && batch.clock >= pane.end) Some("on_time")
    else if (terms.count.exists(pane.since >= _)) Some("early")
    else
      terms.every.filter(_ => pane.since > 0 || terms.unchanged).flatMap { every =>
        val since = Math.max(pane.event, batch.first.getOrElse(batch.clock))
        val byEvent = !terms.byWall && batch.clock >= since + every
        val byWall = (terms.byWall || !batch.rowsCame) && batch.wall >= pane.wall + every
        Option.when(byEvent || byWall)("early")
      }

  private def shown(key: Long, start: Long, end: Long, kind: String, seq: Int, rows: Vector[Row]): Out =
    Out(key, start, end, kind, seq, rows.length.toLong, rows.map(_.value).sum)

  private def hadClosed(end: Long, batch: Batch): Boolean = batch.before.exists(_ >= end + terms.lateness)

  private def enterGrid(grid: Grid, batch: Batch, out: mutable.Growable[Out]): Vector[Row] = {
    val reopened = mutable.LinkedHashMap.empty[(Long, Long), Vector[Row]]
    def reopen(row: Row, start: Long): Unit =
      reopened((row.key, start)) = reopened.getOrElse((row.key, start), Vector.empty) :+ row
    val late = batch.rows.filter { row =>
      val starts = grid.starts(row.time)
      val (closed, entered) = starts.partition(start => hadClosed(start + grid.size, batch))
      entered.foreach { start =>
        val pane = open.getOrElseUpdate((row.key, start), new Pane(start + grid.size, batch.clock, batch.wall))
        pane.rows :+= row
        pane.since += 1
        if (terms.empty) nextStarts(row.key) = Math.min(nextStarts.getOrElse(row.key, start), start)
      }
      val isLate = starts.nonEmpty && entered.isEmpty
      if (terms.late == "reopen each" || (terms.late == "reopen" && isLate)) closed.foreach(reopen(row, _))
      isLate
    }
    reopened.foreach { case ((key, start), rows) => out += shown(key, start, start + grid.size, "close", 0, rows) }
    late
  }

  /** A part of a merge: a row alone, or a session that was open before. */
  private case class Part(start: Long, end: Long, rows: Vector[Row], pane: Option[Pane])

  private def touching(parts: Vector[Part]): Vector[Vector[Part]] =
    parts.sortBy(part => (part.start, part.end)).foldLeft(Vector.empty[Vector[Part]]) { (groups, part) =>
      groups.lastOption match {
        case Some(group) if part.start <= group.map(_.end).max => groups.init :+ (group :+ part)
        case _                                                 => groups :+ Vector(part)
      }
    }

  private def enterSessions(gap: Long, batch: Batch, out: mutable.Growable[Out]): Vector[Row] = {
    val before = open.toVector.map { case ((key, start), pane) =>
      key -> Part(start, pane.end, pane.rows, Some(pane))
    }
    val (late, inTime) = batch.rows.partition { row =>
      hadClosed(row.time + gap, batch) && !before.exists { case (key, part) =>
        key == row.key && part.start <= row.time + gap && row.time <= part.end
      }
    }
    def alone(row: Row) = Part(row.time, row.time + gap, Vector(row), None)
    if (terms.late.startsWith("reopen"))
      late.groupBy(_.key).foreach { case (key, rows) =>
        touching(rows.map(alone)).foreach { group =>
          out += shown(key, group.map(_.start).min, group.map(_.end).max, "close", 0, group.flatMap(_.rows))
        }
      }
    inTime.groupBy(_.key).foreach { case (key, rows) =>
      touching(before.collect { case (`key`, part) => part } ++ rows.map(alone)).foreach { group =>
        val (old, came) = group.partition(_.pane.isDefined)
        if (came.nonEmpty) {
          val (start, end) = (group.map(_.start).min, group.map(_.end).max)
          old.foreach(part => open.remove((key, part.start)))
          val first = old.headOption.flatMap(_.pane)
          val pane = new Pane(end, first.fold(batch.clock)(_.event), first.fold(batch.wall)(_.wall))
          pane.fired = first.fold(0)(_.fired)
          // On time refers to a session's end: one that has grown is on time again.
          pane.wasOnTime = old.exists(part => part.end == end && part.pane.exists(_.wasOnTime))
          pane.since = old.flatMap(_.pane).map(_.since).sum + came.length
          pane.rows = group.flatMap(_.rows)
          open((key, start)) = pane
        }
      }
    }
    late
  }

  private def enterAround(back: Long, ahead: Long, batch: Batch, out: mutable.Growable[Out]): Vector[Row] = {
    def end(time: Long) = time + ahead + 1
    val (late, inTime) = batch.rows.partition(row => hadClosed(end(row.time + back), batch))
    inTime.groupBy(_.key).foreach { case (key, rows) =>
      rowsOfKey(key) = rowsOfKey.getOrElse(key, Vector.empty) ++ rows
      rows.filterNot(row => hadClosed(end(row.time), batch)).foreach { row =>
        open.getOrElseUpdate((key, row.time - back), new Pane(end(row.time), batch.clock, batch.wall))
      }
      open.foreach { case ((of, start), pane) =>
        def holds(row: Row) = start <= row.time && row.time < pane.end
        if (of == key) {
          pane.rows = rowsOfKey(key).filter(holds)
          pane.since += rows.count(holds)
        }
      }
    }
    if (terms.late == "reopen")
      late.map(row => (row.key, row.time)).distinct.foreach { case (key, time) =>
        val rows = late.filter(row => row.key == key && time - back <= row.time && row.time < end(time))
        out += shown(key, time - back, end(time), "close", 0, rows)
      }
    late
  }
}

private[simulation] object Contract {

  /** A row of the input. */
  final case class Row(key: Long, time: Long, value: Long)

  /** A row of the output, with the number and the sum of its pane's rows. */
  final case class Out(key: Long, start: Long, end: Long, firing: String, seq: Int, rows: Long, sum: Long)

  /** One batch: its rows, and the clocks of the batch before it (none before the first) and its own.
    *
    * @param first
    *   the first reading of the clock after 0; none before it
    */
  final case class Batch(
      number: Long,
      rows: Vector[Row],
      before: Option[Long],
      clock: Long,
      wall: Long,
      rowsCame: Boolean,
      first: Option[Long]
  )

  sealed trait Shape
  final case class Grid(size: Long, slide: Long, offset: Long) extends Shape {
    def starts(time: Long): Vector[Long] = {
      val last = Math.floorDiv(time - offset, slide) * slide + offset
      Iterator.iterate(last)(_ - slide).takeWhile(_ > time - size).toVector
    }
  }
  final case class Sessions(gap: Long) extends Shape
  final case class Around(before: Long, after: Long) extends Shape

  /** The options of a query. */
  final case class Terms(
      shape: Shape,
      lateness: Long,
      every: Option[Long],
      unchanged: Boolean,
      byWall: Boolean,
      count: Option[Long],
      onTime: Boolean,
      accumulate: Boolean,
      late: String,
      empty: Boolean
  )
}
