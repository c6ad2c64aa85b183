package org.apache.spark.sql.mullion.operator

import java.util.WeakHashMap

import scala.collection.mutable

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.mullion.operator.program.{OperatorProgram, StateAdaptation}
import org.apache.spark.sql.mullion.query.RunningQuery
import org.apache.spark.sql.mullion.shim.SparkVersionShim
import org.apache.spark.sql.mullion.state.header.{DrainHeader, OperatorHeader, StateChange, StateHeader}

import dev.mullion.MullionException
import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.spec.TimeMath

/** The transition of an operator from the state at the start of its query: the meaning of that state, and the
  * conversion in the first batch.
  *
  * {{{
  *   batch                 16     17 (the first under the changed query)    18
  *   reads state of        was    was, and converts it to now               now
  *   all had closed by     12:00  12:00, as before the change               12:00 at least
  * }}}
  *
  * A sink may have published a batch whose query died before the commit. Such a batch is planned again but not run, and
  * its state stays as written by the previous run. The header of that run is therefore deleted by the batch itself, not
  * at the start of the query; if the batch does not run, the next one begins with the recorded header. The same holds
  * for the very first batch, which has no state: if it runs, it defines the state.
  *
  * @param first
  *   the version of state that the first batch of this run reads
  * @param was
  *   the header of that version
  */
private[operator] final class Continued(first: Long, was: OperatorHeader, now: OperatorHeader) {
  private val changes = was.differences(now).nonEmpty || Continued.formats(was) != Continued.formats(now)
  private val isEmpty = first == 0
  @volatile private var begun = false
  private val before = was match {
    case drain: DrainHeader => drain.alone
    case other              => other
  }
  private val (lateness, changesLateness, closedBefore) = (before, now) match {
    case (one: StateHeader, other: StateHeader) if !isEmpty =>
      (other.allowedLateness, one.allowedLateness != other.allowedLateness, one.closedTo)
    case _ => (0L, false, None)
  }
  // The end of the last pane that had closed when the lateness changed.
  private var closedTo = closedBefore

  /** True if this applies to a batch that reads a version: the first one of the run, or a later one. */
  def holdsAt(version: Long): Boolean = begun || version == first

  /** The conversion of the state in a batch, if it is the first under a changed query. The new header is recorded here,
    * before any state is written.
    */
  def begin(
      session: SparkSession,
      program: OperatorProgram,
      info: SparkVersionShim.StateInfo,
      clock: BatchClock
  ): Option[StateAdaptation] =
    if (info.storeVersion != first) None
    else {
      val (root, hadoopConf) = (Continued.root(info), session.sessionState.newHadoopConf())
      if (changes && isEmpty) OperatorHeader.changed(root, hadoopConf, first, now.after(now))
      else if (changes) {
        refuseWhatCannotBe(info)
        OperatorHeader.changed(root, hadoopConf, first, now.after(was, Some(clock.before)))
      } else OperatorHeader.forgetAfter(root, hadoopConf, first)
      begun = true
      Option.when(changes && !isEmpty)(program.adaptation(was))
    }

  /** A query is compared with its state when it starts. If its first batch did not run, the state is another one. */
  private def refuseWhatCannotBe(info: SparkVersionShim.StateInfo): Unit = {
    val refused = was.changeTo(now).refused
    if (refused.nonEmpty)
      throw MullionException.incompatibleState(
        "The previous batch was published by an earlier, different version of the query, and the state of " +
          s"operator ${info.operatorId} in the checkpoint ${new Path(info.checkpointLocation).getParent} belongs to that: " +
          s"${refused.mkString("; ")}. Nothing was overwritten. Start that version, which continues from here."
      )
  }

  /** The due time up to which panes had closed before a batch, in microseconds, if that is not the clock before it. */
  def closedDue(version: Long, before: Long): Option[Long] =
    if (before == BatchClock.BeforeAllTime) None
    else
      synchronized {
        if (changesLateness && version == first)
          (this.before, now) match {
            case (one: StateHeader, _) => closedTo = Some(StateChange.closedTo(one, before))
            case _                     =>
          }
        closedTo.map { end =>
          val due = TimeMath.plus(end, lateness)
          if (changesLateness && version == first) due else Math.max(before, due)
        }
      }

  /** The event-time watermark for downstream operators, if no pane that ended by then closes any more. */
  def outputWatermark(byRules: Long): Long = synchronized(closedTo.fold(byRules)(Math.max(_, byRules)))
}

private[operator] object Continued {
  // Entries are removed with their query, so they must not reference it.
  private val ofQueries = new WeakHashMap[StreamExecution, mutable.Map[Long, Option[Continued]]]()

  /** For an operator whose state Spark tracks; none outside of a query, or in a new checkpoint. */
  def of(session: SparkSession, program: OperatorProgram, info: SparkVersionShim.StateInfo): Option[Continued] =
    ofQueries.synchronized {
      RunningQuery.find(session, info.queryRunId).flatMap { query =>
        val ofOperators = ofQueries.computeIfAbsent(query, _ => mutable.Map.empty[Long, Option[Continued]])
        ofOperators.get(info.operatorId).filter(_.forall(_.holdsAt(info.storeVersion))).getOrElse {
          val continued = readHeader(session, program, info)
          ofOperators(info.operatorId) = continued
          continued
        }
      }
    }

  private def readHeader(
      session: SparkSession,
      program: OperatorProgram,
      info: SparkVersionShim.StateInfo
  ): Option[Continued] =
    OperatorHeader
      .readAt(root(info), session.sessionState.newHadoopConf(), info.storeVersion)
      .map(new Continued(info.storeVersion, _, program.header))

  /** Formats that are read alike may be written differently. */
  private def formats(of: OperatorHeader) = of.windows.map { case (name, window) => name -> window.format }.toMap

  private def root(info: SparkVersionShim.StateInfo) = new Path(info.checkpointLocation, info.operatorId.toString)
}
