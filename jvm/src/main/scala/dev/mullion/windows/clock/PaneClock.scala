package dev.mullion.windows.clock

/** What panes fire and close on. */
sealed abstract class PaneClock(val name: String)

object PaneClock {

  /** Spark's watermark. */
  case object EventTime extends PaneClock("event time")

  /** The wall clock, as batches are stamped with it: a row's time is that of its batch, so that none is ever late. */
  case object ProcessingTime extends PaneClock("processing time")
}
