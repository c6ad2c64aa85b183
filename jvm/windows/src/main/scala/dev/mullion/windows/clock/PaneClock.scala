package dev.mullion.windows.clock

/** The clock by which panes fire and close. */
sealed abstract class PaneClock(val name: String)

object PaneClock {

  /** Spark's watermark. */
  case object EventTime extends PaneClock("event time")

  /** The wall clock of batch timestamps: a row's time is its batch's, so no row is ever late. */
  case object ProcessingTime extends PaneClock("processing time")
}
