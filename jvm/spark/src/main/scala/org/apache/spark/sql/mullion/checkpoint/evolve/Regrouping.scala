package org.apache.spark.sql.mullion.checkpoint.evolve

import scala.util.Try

import org.apache.spark.sql.catalyst.plans.logical.{AnalysisHelper, LogicalPlan}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.mullion.checkpoint.layout.CheckpointClock
import org.apache.spark.sql.mullion.operator.engine.PartitionTotals
import org.apache.spark.sql.mullion.operator.program.{OperatorProgram, TogetherWindow, WindowProgram}
import org.apache.spark.sql.mullion.plan.{OneWindow, TogetherPlan, WindowStrategy, WindowedAggregate, WindowsTogether}
import org.apache.spark.sql.mullion.state.header.{
  DrainHeader,
  FirstRecords,
  OperatorHeader,
  RecordPlaces,
  Regrouped,
  StateHeader,
  TogetherHeader
}
import org.apache.spark.sql.mullion.state.record.FamilySpec

import dev.mullion.MullionException
import dev.mullion.windows.spec.{Setting, TimeMath}

/** The node of a query whose windows differ from those of its state, with the records of each in their places, see
  * [[RecordPlaces]].
  *
  * {{{
  *   state of together [hourly, visits]        WindowsTogether [per_hour in hourly, visits in visits]
  *                                             WindowsTogether [(alone) in visits], and hourly is dropped
  * }}}
  */
private[checkpoint] object Regrouping {

  /** The continued node, or the reason why it is impossible. The header decides whether it is permitted. */
  def apply(
      spark: SparkSession,
      node: LogicalPlan,
      was: OperatorHeader,
      clock: Option[CheckpointClock],
      note: String => Unit
  ): Either[String, LogicalPlan] = programOf(node).fold[Either[String, LogicalPlan]](Right(node)) { program =>
    for {
      found <- Regrouped(was, program.header)
      _ <- closed(was, program.header, clock).toLeft(())
      places <- placesOf(spark, node, program, was, found)
      _ <- listedKeys(node).filter(_ => places.isDefined).toLeft(())
    } yield {
      val before = Regrouped.windowsOf(was).toMap
      val continued = windowByWindow(node) { (name, window) =>
        found.kept.get(name).map(before) match {
          case Some(header) =>
            val (continuing, casts) = CastColumns(Carried(window, header), node.children.head, header)
            casts.foreach(note)
            continuing
          case None => clock.fold(window)(Carried.added(window, _))
        }
      }
      places.fold(continued)(placed(continued, _))
    }
  }

  /** Records in places of several windows are distributed by the keys of all of them. */
  private def listedKeys(node: LogicalPlan): Option[String] =
    windowsOf(node).find(_._2.terms.knownKeys.isDefined).map { case (_, window) =>
      s"the window (${window.rules.describe}) has ${Setting.EmptyFor}, and the state is of several windows. Use " +
        s"${Setting.EmitEmpty}, or start with a new checkpointLocation"
    }

  private def windowByWindow(
      node: LogicalPlan
  )(change: (String, WindowedAggregate) => WindowedAggregate): LogicalPlan = node match {
    case several: WindowsTogether =>
      several.copy(windows = several.windows.map(w => OneWindow(w.name, change(w.name, w.node))))
    case one: WindowedAggregate => change(Regrouped.Alone, one)
    case other                  => other
  }

  /** A plan over the state in a checkpoint, with the records of its windows in the state's places. */
  def over(plan: LogicalPlan, header: OperatorHeader): LogicalPlan = header match {
    case drain: DrainHeader => Draining.over(plan, drain)
    case other              =>
      val names = Regrouped.windowsOf(other).map(_._1)
      AnalysisHelper.allowInvokingTransformsInAnalyzer {
        plan.transformDown {
          case node @ (_: WindowedAggregate | _: WindowsTogether) if windowsOf(node).map(_._1) == names =>
            val before = Regrouped.windowsOf(other).toMap
            val same = windowByWindow(node) { (name, window) =>
              CastColumns(Carried(window, before(name)), node.children.head, before(name))._1
            }
            recordPlaces(other).fold(same)(placed(same, _))
        }
      }
  }

  /** The places of the records, if a header has them. */
  def recordPlaces(header: OperatorHeader): Option[RecordPlaces] =
    Option.when(header.first.isDefined || header.windows.exists(_._2.place.isDefined))(
      RecordPlaces(placesIn(header), header.first)
    )

  private def placesIn(header: OperatorHeader): Map[String, String] =
    Regrouped.byPlace(header).map { case (place, (name, _)) => name -> place }.toMap

  private def programOf(node: LogicalPlan): Option[OperatorProgram] = node match {
    case one: WindowedAggregate   => Some(WindowStrategy.program(one))
    case several: WindowsTogether => Some(TogetherPlan(several).program)
    case _                        => None
  }

  /** Several windows in one query cannot represent a changed lateness. */
  private def closed(was: OperatorHeader, now: OperatorHeader, clock: Option[CheckpointClock]): Option[String] =
    (was, now) match {
      case (one: StateHeader, _: TogetherHeader) =>
        val due = one.closedTo.map(TimeMath.plus(_, one.allowedLateness)).filter(at => clock.exists(_.committed < at))
        due.map { at =>
          s"the lateness of the window (${one.describe}) has just changed: other windows can be added once the clock has " +
            s"reached ${DrainHeader.instant(at)}"
        }
      case _ => None
    }

  private def placesOf(
      spark: SparkSession,
      node: LogicalPlan,
      program: OperatorProgram,
      was: OperatorHeader,
      found: Regrouped
  ): Either[String, Option[RecordPlaces]] = {
    val isSame = found.added.isEmpty && found.gone.isEmpty && found.kept.forall { case (now, had) => now == had }
    val windows = windowsOf(node)
    val drops = windows.exists(_._2.terms.drops)
    if (isSame) Right(recordPlaces(was))
    else
      for (gone <- if (drops) programsOf(spark, was, found.gone) else Right(Map.empty[String, WindowProgram])) yield {
        val before = placesIn(was)
        val continued = found.kept.map { case (now, had) => now -> before(had) }
        val usedPlaces = before.valuesIterator.toSet ++ was.first.map(_.place)
        val of = found.added.foldLeft(continued) { (known, name) =>
          known + (name -> Regrouped.placeFor(name, usedPlaces ++ known.valuesIterator))
        }
        val dropped = found.gone.flatMap(name => gone.get(name).toSeq.flatMap(TogetherWindow.families(before(name), _)))
        def firstBefore: FirstRecords = {
          val (place, (name, _)) = Regrouped.byPlace(was).head
          val here = windows.collectFirst { case (now, one) if of(now) == place => WindowStrategy.program(one) }
          val owner = here orElse gone.get(name)
          FirstRecords.of(owner.fold(unknown(place))(TogetherWindow.families(place, _).head))
        }
        Some(RecordPlaces(of, was.first orElse Some(firstBefore), dropped, gone.keys.toSeq.sorted))
      }
  }

  /** For a removed window that is not dropped: the query is rejected. */
  private def unknown(place: String): FamilySpec = PartitionTotals.family.copy(name = s"$place.none")

  /** The programs of the removed windows, from their texts. */
  private def programsOf(
      spark: SparkSession,
      was: OperatorHeader,
      gone: Seq[String]
  ): Either[String, Map[String, WindowProgram]] = {
    val headers = Regrouped.windowsOf(was).toMap
    gone.foldLeft[Either[String, Map[String, WindowProgram]]](Right(Map.empty)) { (known, name) =>
      for {
        before <- known
        program <- Try(WrittenQuery.programOf(spark, headers(name))).toEither.left.map {
          case _: MullionException =>
            s"the window '$name' cannot be dropped: its aggregates (${headers(name).aggregates.mkString(", ")}) cannot be rebuilt " +
              "from their text, so its records are unknown. Keep it, or start with a new checkpointLocation"
          case other => throw other
        }
      } yield before + (name -> program)
    }
  }

  private def placed(node: LogicalPlan, places: RecordPlaces): LogicalPlan = node match {
    case several: WindowsTogether => several.copy(places = Some(places))
    case one: WindowedAggregate   =>
      WindowsTogether.showing(one, Seq(Regrouped.Alone -> one), drain = None, Some(places))
    case other => other
  }

  /** The windows of a node, by name. */
  private def windowsOf(node: LogicalPlan): Seq[(String, WindowedAggregate)] = node match {
    case several: WindowsTogether => several.windows.map(_.name).zip(several.parts)
    case one: WindowedAggregate   => Seq(Regrouped.Alone -> one)
    case _                        => Nil
  }
}
