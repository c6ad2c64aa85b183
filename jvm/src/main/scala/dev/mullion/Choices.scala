package dev.mullion

import scala.language.implicitConversions

import org.apache.spark.sql.{functions, Column}
import org.apache.spark.sql.mullion.builders.WindowOptions

import dev.mullion.windows.rules.LatePolicy

/** The time that windows go by: a column, by itself or by name, or the wall clock. */
sealed trait Time

object Time {

  /** The wall clock: a row's time is that of its batch. Windows of row numbers, which have no clock, need it too. */
  case object Processing extends Time

  private[mullion] final case class Event(column: Column) extends Time

  implicit def ofColumn(column: Column): Time = Event(column)

  implicit def named(column: String): Time = Event(functions.col(column))
}

/** What becomes of a late row: a row whose every pane has closed before its batch. */
object Late {
  val Drop: LatePolicy = LatePolicy.Drop
  val Emit: LatePolicy = LatePolicy.Emit
  val Reopen: LatePolicy = LatePolicy.Reopen
  val ReopenEach: LatePolicy = LatePolicy.ReopenEach
}

/** Whose event clock closes panes. */
sealed abstract class Watermark(private[mullion] val asked: WindowOptions => WindowOptions)

object Watermark {

  /** The stream's: Spark's watermark. */
  case object Stream extends Watermark(identity)

  /** Each key has its own: its largest time so far, less the delay of `withWatermark`. */
  case object PerKey extends Watermark(_.withClockPerKey(followsWall = false))

  /** The same, and it goes on with the wall time that passes after the row that moved it last. */
  case object PerKeyWithWallTime extends Watermark(_.withClockPerKey(followsWall = true))
}
