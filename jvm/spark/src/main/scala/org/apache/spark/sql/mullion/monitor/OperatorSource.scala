package org.apache.spark.sql.mullion.monitor

import com.codahale.metrics.{Gauge, MetricRegistry}

import org.apache.spark.metrics.source.Source

import dev.mullion.windows.clock.Lateness

/** The metrics of an operator in Spark's metrics system, and so in each of its sinks. docs/reference/metrics.md lists
  * them.
  *
  * Counts are sums since the start of the run. They are read when a sink asks for them.
  */
private[monitor] final class OperatorSource(query: MonitoredQuery, operator: OperatorHistory) extends Source {
  override val sourceName: String =
    s"${OperatorSource.Prefix}.${query.name.getOrElse(query.id.toString)}.${operator.description.number}"

  override val metricRegistry: MetricRegistry = new MetricRegistry

  private def gauge(name: String)(value: => Long): Unit = {
    metricRegistry.register(name, new Gauge[Long] { override def getValue: Long = value })
    ()
  }

  private def last(value: BatchReport => Long): Long = operator.last.fold(0L)(value)

  Count.all.foreach(count => gauge(count.name)(operator.total(count)))
  Lateness.Names.zipWithIndex.foreach { case (name, bucket) => gauge(s"rowsLate$name")(operator.lateRows(bucket)) }
  gauge("batches")(operator.batches)
  gauge("rowsRead")(operator.rowsRead)
  gauge("panesOpen")(last(_.panesOpen))
  gauge("stateRecords")(last(_.state.records))
  gauge("stateBytes")(last(_.state.bytes))
  gauge("stateCachedBytes")(last(_.state.cachedBytes))
  gauge("stateDiskBytes")(last(_.state.diskBytes))

  (0 until operator.description.streams).foreach { stream =>
    gauge(s"watermarkLagMs$stream")(OperatorSource.streamLagMs(query, operator, stream).getOrElse(0L))
  }

  if (OperatorSource.hasReading(operator.description.clock)) {
    gauge("clockMs")(last(_.clock.atMs.getOrElse(0L)))
    gauge("clockLagMs")(OperatorSource.lagMs(query, operator).getOrElse(0L))
  }
}

private[mullion] object OperatorSource {
  val Prefix = "mullion"

  def hasReading(clock: ClockKind): Boolean = clock == ClockKind.EventTime || clock == ClockKind.ProcessingTime

  /** The distance of an operator's clock from the wall clock, in milliseconds: for an ended query, at its end. */
  def lagMs(query: MonitoredQuery, operator: OperatorHistory): Option[Long] = for {
    report <- operator.last
    at <- report.clock.atMs
  } yield query.nowMs.getOrElse(report.timeMs) - at

  /** The distance of a stream's watermark from the wall clock, in milliseconds; none before its first row. */
  private def streamLagMs(query: MonitoredQuery, operator: OperatorHistory, stream: Int): Option[Long] = for {
    report <- operator.last
    reading <- report.clock.streams.lift(stream)
    at <- reading.watermarkMs
  } yield query.nowMs.getOrElse(report.timeMs) - at
}
