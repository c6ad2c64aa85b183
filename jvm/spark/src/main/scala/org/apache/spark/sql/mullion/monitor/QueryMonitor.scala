package org.apache.spark.sql.mullion.monitor

import java.util.{Collections, UUID, WeakHashMap}

import scala.collection.mutable

import org.apache.spark.{SparkContext, SparkEnv}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.streaming.StreamingQueryListener
import org.apache.spark.sql.streaming.StreamingQueryListener._

/** The reports of an application's queries, of running ones and of the last ones that ended.
  *
  * @param retained
  *   the number of ended runs to keep
  */
private[mullion] final class QueryMonitor private (retained: Int) {
  import QueryMonitor.Observer

  private val runs = mutable.LinkedHashMap.empty[UUID, MonitoredQuery]
  private val sources = mutable.Map.empty[String, (UUID, OperatorSource)]
  @volatile private var observers = Vector.empty[Observer]
  private val listening = Collections.newSetFromMap(new WeakHashMap[AnyRef, java.lang.Boolean])

  /** All runs, the newest first. */
  def queries: Seq[MonitoredQuery] = synchronized(runs.values.toSeq.reverse)

  def query(run: UUID): Option[MonitoredQuery] = synchronized(runs.get(run))

  /** Records that an operator of a query runs. Later calls for the same operator of a run do nothing.
    *
    * @param description
    *   the operator, and the settings of the session
    */
  def begin(query: StreamExecution, operator: Long)(description: => (OperatorDescription, MonitorSettings)): Unit =
    synchronized {
      if (runs.get(query.runId).flatMap(_.operator(operator)).isEmpty) {
        val (described, settings) = description
        val run = runs.getOrElseUpdate(query.runId, { listen(query); MonitoredQuery(query) })
        forgetOldest()
        publish(run, run.begin(described, settings))
      }
    }

  def report(run: UUID, operator: Long, report: BatchReport): Unit = query(run).foreach { of =>
    of.report(operator, report)
    observers.foreach(_.reported(of, report.timeMs))
  }

  /** Adds an observer of reports and ends of all queries. */
  def observe(observer: Observer): Unit = synchronized(observers :+= observer)

  /** A run's end and its idle time are only reported to listeners of its session. */
  private def listen(query: StreamExecution): Unit = {
    val manager = query.sparkSession.streams
    if (listening.add(manager)) manager.addListener(new QueryMonitor.Listener(this))
  }

  private def forgetOldest(): Unit = {
    val ended = runs.values.filter(_.running.isEmpty).map(_.runId).toSeq
    ended.dropRight(retained).foreach(runs.remove)
  }

  private def publish(run: MonitoredQuery, operator: OperatorHistory): Unit = Option(SparkEnv.get).foreach { env =>
    val source = new OperatorSource(run, operator)
    // A query that restarts has the same name, and the end of its last run may not have been reported yet.
    sources.put(source.sourceName, run.runId -> source).foreach(before => env.metricsSystem.removeSource(before._2))
    env.metricsSystem.registerSource(source)
  }

  private def end(runId: UUID, failure: Option[String]): Unit = synchronized {
    for (run <- runs.get(runId)) {
      failure.foreach(run.fail)
      observers.foreach(_.ended(run))
    }
    val ended = sources.collect { case (name, (of, source)) if of == runId => name -> source }
    ended.foreach { case (name, source) =>
      sources -= name
      Option(SparkEnv.get).foreach(_.metricsSystem.removeSource(source))
    }
  }
}

private[mullion] object QueryMonitor {
  private val Retained = "spark.sql.streaming.ui.retainedQueries"

  // Entries are removed with their context, so they must not reference it.
  private val ofContexts = new WeakHashMap[SparkContext, QueryMonitor]()

  def of(context: SparkContext): QueryMonitor = ofContexts.synchronized {
    ofContexts.computeIfAbsent(context, _ => new QueryMonitor(context.conf.getInt(Retained, 100)))
  }

  /** An observer of the queries of an application. */
  trait Observer {

    /** Called after a report of a query. */
    def reported(query: MonitoredQuery, timeMs: Long): Unit

    /** Called after the end of a query. */
    def ended(query: MonitoredQuery): Unit
  }

  private final class Listener(monitor: QueryMonitor) extends StreamingQueryListener {
    override def onQueryStarted(event: QueryStartedEvent): Unit = ()
    override def onQueryProgress(event: QueryProgressEvent): Unit = ()
    override def onQueryIdle(event: QueryIdleEvent): Unit = monitor.query(event.runId).foreach(_.look())
    override def onQueryTerminated(event: QueryTerminatedEvent): Unit = monitor.end(event.runId, event.exception)
  }
}
