package dev.mullion.windows.key

/** What the clocks read when a pane opened or last fired, by which it is decided when it fires early (see
  * [[dev.mullion.windows.rules.EarlyFiring]]). In microseconds.
  */
private[key] trait Readings {
  def eventReading: Long
  def wallReading: Long

  final def isBefore(other: Readings): Boolean =
    eventReading < other.eventReading || (eventReading == other.eventReading && wallReading < other.wallReading)
}
