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

/** The event clock that closes panes. */
sealed trait Clock {
  private[mullion] def asked(options: WindowOptions): WindowOptions
}

/** Panes close by Spark's watermark.
  *
  * @param idleAfter
  *   how long a source may be empty before the event clock advances with the wall clock
  */
final case class Watermark(idleAfter: Option[Span] = None) extends Clock {
  override private[mullion] def asked(options: WindowOptions): WindowOptions =
    idleAfter.map(_.micros).fold(options)(options.withIdleAfter)
}

object Watermark {
  def apply(idleAfter: Span): Watermark = Watermark(Some(idleAfter))
}

/** Panes close by a clock of their key: its largest time so far, less the delay of `withWatermark`.
  *
  * @param wallTime
  *   whether it also advances with the wall time that passes after the row that moved it last
  * @param lateBy
  *   what makes a row late
  */
final case class PerKey(wallTime: Boolean = false, lateBy: LateBy = LateBy.Panes) extends Clock {
  override private[mullion] def asked(options: WindowOptions): WindowOptions = {
    val own = options.withClockPerKey(wallTime)
    if (lateBy == LateBy.Watermark) own.withLateBehindClock else own
  }
}

/** What makes a row late where each key has its own clock. */
sealed trait LateBy

object LateBy {

  /** All its panes have closed. */
  case object Panes extends LateBy

  /** Its time is before the clock of its key. */
  case object Watermark extends LateBy
}

/** What happens to the open panes of a checkpoint when its query has changed. */
final case class Upgrade(
    newAggregates: Upgrade.NewAggregates = Upgrade.RejectNew,
    window: Upgrade.OtherWindow = Upgrade.RejectWindow
) {
  private[mullion] def asked(options: WindowOptions): WindowOptions = {
    val known = if (newAggregates == Upgrade.FromNow) options.withNewAggregatesFromNow else options
    window match {
      case Upgrade.RejectWindow => known
      case Upgrade.Drain        => known.withDrainOnChange
      case Upgrade.Drop         => known.withDropOnChange
    }
  }
}

object Upgrade {

  /** The treatment of aggregates that open panes do not have. */
  sealed trait NewAggregates

  /** The query does not start. */
  case object RejectNew extends NewAggregates

  /** They cover the rows from now on. */
  case object FromNow extends NewAggregates

  /** The treatment of open panes whose window the query no longer has. */
  sealed trait OtherWindow

  /** The query does not start. */
  case object RejectWindow extends OtherWindow

  /** They continue until they close, while rows from a boundary on enter the new window. */
  case object Drain extends OtherWindow

  /** They are dropped without a firing: for windows that were in `together` with this one. */
  case object Drop extends OtherWindow
}
