package dev.mullion

import scala.language.implicitConversions

import org.apache.spark.sql.mullion.plan.options.WindowOptions
import org.apache.spark.sql.mullion.shim.Classic
import org.apache.spark.sql.{functions, Column, DataFrame}

import dev.mullion.windows.rules.LatePolicy

/** The time of rows: a column, given directly or by name, or the wall clock. */
sealed trait Time

object Time {

  /** The wall clock: each row gets the time of its batch. Windows of row numbers, which have no clock, require it. */
  case object Processing extends Time

  private[mullion] final case class Event(column: Column) extends Time

  implicit def ofColumn(column: Column): Time = Event(column)

  implicit def named(column: String): Time = Event(functions.col(column))
}

/** Columns, given directly or by name: `Seq(col("user"))` or `Seq("user")`. */
final class Columns private (private[mullion] val all: Seq[Column])

object Columns {
  private[mullion] val none: Columns = new Columns(Nil)

  implicit def ofColumns(columns: Seq[Column]): Columns = new Columns(columns)

  implicit def named(columns: Seq[String]): Columns = new Columns(columns.map(functions.col))

  // Without it, both conversions above would apply to Nil.
  implicit def ofNil(columns: Nil.type): Columns = new Columns(columns)
}

/** The treatment of late rows: rows whose panes have all closed before their batch. */
object Late {
  val Drop: LatePolicy = LatePolicy.Drop
  val Emit: LatePolicy = LatePolicy.Emit
  val Reopen: LatePolicy = LatePolicy.Reopen
  val ReopenEach: LatePolicy = LatePolicy.ReopenEach
}

/** The treatment of windows without rows. */
sealed trait Empty {
  private[mullion] def applyTo(options: WindowOptions): WindowOptions
}

object Empty {

  /** Only panes with rows exist. */
  case object Skip extends Empty {
    override private[mullion] def applyTo(options: WindowOptions): WindowOptions = options
  }

  /** They close too, from the first window with a row of the key on. */
  case object Emit extends Empty {
    override private[mullion] def applyTo(options: WindowOptions): WindowOptions = options.withEmpty(true)
  }

  /** The same, and for the keys of a table from the start of the query on, whether they have rows or not.
    *
    * @param keys
    *   a batch DataFrame with the columns of `by`
    */
  final case class EmitFor(keys: DataFrame) extends Empty {
    override private[mullion] def applyTo(options: WindowOptions): WindowOptions =
      options.withEmptyFor(Classic.frame(keys))
  }

  /** The same as `Emit`, with the values of the key's window before. */
  case object Forward extends Empty {
    override private[mullion] def applyTo(options: WindowOptions): WindowOptions = options.withForward
  }
}

/** The event clock that closes panes. */
sealed trait Clock {
  private[mullion] def applyTo(options: WindowOptions): WindowOptions
}

/** Panes close by Spark's watermark.
  *
  * @param idleAfter
  *   how long a source may be empty before it is idle. Of several streams, an idle one no longer holds back the
  *   watermark; if all are idle, the watermark advances with the wall clock
  * @param maxAhead
  *   how far the event time of a row may be ahead of the wall clock; streams only
  * @throws MullionException
  *   at construction, for an `idleAfter` below 1 millisecond or a negative `maxAhead`
  */
final case class Watermark(idleAfter: Option[Span] = None, maxAhead: Option[Span] = None) extends Clock {
  applyTo(WindowOptions()) // raises an error for an invalid length

  /** Rows whose time is further ahead of the wall clock do not move the watermark, and enter no pane. */
  def withMaxAhead(most: Span): Watermark = copy(maxAhead = Some(most))

  override private[mullion] def applyTo(options: WindowOptions): WindowOptions = {
    val idling = idleAfter.map(_.micros).fold(options)(options.withIdleAfter)
    maxAhead.map(_.micros).fold(idling)(idling.withMaxAhead)
  }
}

object Watermark {
  def apply(idleAfter: Span): Watermark = Watermark(Some(idleAfter))
}

/** Panes close by a clock per key: the key's largest time so far, minus the delay of `withWatermark`.
  *
  * @param wallTime
  *   whether the clock also advances with the wall time since the row that moved it last
  * @param lateBy
  *   the condition that makes a row late
  * @param forgetAfter
  *   the wall time without rows after which a key is forgotten: its open panes close, and its clock is removed
  * @throws MullionException
  *   at construction, for a `forgetAfter` that is not positive
  */
final case class PerKey(
    wallTime: Boolean = false,
    lateBy: LateBy = LateBy.Panes,
    forgetAfter: Option[Span] = None
) extends Clock {
  applyTo(WindowOptions()) // raises an error for an invalid length

  /** With the time without rows after which a key is forgotten. */
  def forgettingAfter(time: Span): PerKey = copy(forgetAfter = Some(time))

  override private[mullion] def applyTo(options: WindowOptions): WindowOptions = {
    val own = options.withClockPerKey(wallTime)
    val late = if (lateBy == LateBy.Watermark) own.withLateBehindClock else own
    forgetAfter.fold(late)(time => late.withForgetAfter(time.micros))
  }
}

/** The condition that makes a row late where each key has its own clock. */
sealed trait LateBy

object LateBy {

  /** All its panes have closed. */
  case object Panes extends LateBy

  /** Its time is before the clock of its key. */
  case object Watermark extends LateBy
}

/** The treatment of a checkpoint's open panes when the query has changed. */
final case class Upgrade(
    newAggregates: Upgrade.NewAggregates = Upgrade.RejectNew,
    window: Upgrade.OtherWindow = Upgrade.RejectWindow
) {
  private[mullion] def applyTo(options: WindowOptions): WindowOptions = {
    val current = if (newAggregates == Upgrade.FromNow) options.withNewAggregatesFromNow else options
    window match {
      case Upgrade.RejectWindow => current
      case Upgrade.Drain        => current.withDrainOnChange
      case Upgrade.Drop         => current.withDropOnChange
    }
  }
}

object Upgrade {

  /** The treatment of aggregates that open panes do not have. */
  sealed trait NewAggregates

  /** The query does not start. */
  case object RejectNew extends NewAggregates

  /** They cover only the rows from now on. */
  case object FromNow extends NewAggregates

  /** The treatment of open panes whose window the query no longer has. */
  sealed trait OtherWindow

  /** The query does not start. */
  case object RejectWindow extends OtherWindow

  /** They stay open until they close, while rows after a boundary enter the new window. */
  case object Drain extends OtherWindow

  /** They are dropped without a firing. For windows that were in `together` with this one. */
  case object Drop extends OtherWindow
}
