package dev.mullion.windows.key

/** The clock readings when a pane opened or last fired, which decide its next early firing (see
  * [[dev.mullion.windows.rules.EarlyFiring]]). In microseconds.
  */
private[key] trait Readings {
  def eventReading: Long
  def wallReading: Long

  final def isBefore(other: Readings): Boolean =
    eventReading < other.eventReading || (eventReading == other.eventReading && wallReading < other.wallReading)
}
