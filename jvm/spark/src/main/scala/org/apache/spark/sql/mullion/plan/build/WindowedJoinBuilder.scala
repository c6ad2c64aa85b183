package org.apache.spark.sql.mullion.plan.build

import org.apache.spark.sql.classic.DataFrame
import org.apache.spark.sql.functions._
import org.apache.spark.sql.mullion.plan.options.{WindowOptions, WindowedJoinOptions}

import dev.mullion.MullionException
import dev.mullion.windows.rules.{JoinKind, LatePolicy}
import dev.mullion.windows.spec.{AroundWindow, RowNumberWindow, Setting, WindowSpec}

/** Converts a windowed join to a plan: one window over the rows of both sides, which collects them, and the product of
  * a pane's rows when it closes.
  *
  * {{{
  *   left  ─┐
  *          ├─ union of (keys, time, left, right) ─ windowed(...).agg(lefts, rights) ─ explode both lists
  *   right ─┘
  * }}}
  */
object WindowedJoinBuilder {

  /** The event time of rows of both sides: columns of the options that the client computes refer to it. */
  val timeName = "_mullion_time"

  private val (lefts, rights) = ("_mullion_lefts", "_mullion_rights")

  /** @param options
    *   with the columns of the window, which are evaluated on each side
    */
  def apply(
      left: DataFrame,
      right: DataFrame,
      window: WindowSpec,
      options: WindowOptions,
      join: WindowedJoinOptions
  ): DataFrame = left.sparkSession.withActive {
    checkOptions(window, options)
    JoinColumns.checkKinds(left, right)
    val keys = JoinColumns.keys(left, right, join.by)
    val ofLeft = Setting.text("time", join.time)
    // In Python, time= is a tuple if the sides differ.
    val ofRight =
      if (join.time == join.rightTime) ofLeft
      else Setting.text("right_time", join.rightTime).copy(python = Setting.text("time", join.rightTime).python)
    val sides = Seq(
      new JoinSide("left", left, keys.map(_._1), JoinColumns.time(left, "left", ofLeft, join.time)),
      new JoinSide("right", right, keys.map(_._2), JoinColumns.time(right, "right", ofRight, join.rightTime))
    )
    val names = keys.map(_._1.name)
    val emits = options.late == LatePolicy.Emit
    val taken = (names :+ "window") ++ Option.when(emits)("late_row") ++ sides.head.fields.map(_.name)
    val rightNames = JoinColumns.rightNames(left, taken, sides.last.fields.map(_.name), join.suffix)
    val ofWindow = new ColumnsOfWindow(sides, options)
    val rows = sides.map(_.tagged(names, sides, join.how, ofWindow.on)).reduce(_ union _)
    val groups = rows.columns.toSeq.takeWhile(_ != timeName)
    val lists = WindowedBuilder(
      rows,
      window,
      groups.map(name => col(JoinColumns.quoted(name))),
      ofWindow.overBoth,
      Seq(collect_list(col(sides.head.tag)).as(lefts), collect_list(col(sides.last.tag)).as(rights))
    )
    pairs(lists, sides, names, join.how, rightNames, emits)
  }

  private def checkOptions(window: WindowSpec, options: WindowOptions): Unit = {
    window match {
      case _: RowNumberWindow | _: AroundWindow =>
        throw MullionException.unsupported(
          s"A join of rows in the same window needs windows that both sides share, and this one is ${window.describe}. Use " +
            "tumbling, sliding, cumulating, session or custom windows."
        )
      case _ =>
    }
    if (options.perKey)
      throw MullionException.unsupported(
        s"${Setting.PerKey}: windows of a join close by the watermark of both streams. Leave it out."
      )
    if (options.late.reopens)
      throw MullionException.unsupported(
        s"${Setting.late(options.late.name)}: the pairs of a window are emitted once. Use ${Setting.late("drop")}, or " +
          s"${Setting.late("emit")} for the late rows themselves."
      )
  }

  /** The product of the rows of each pane. */
  private def pairs(
      lists: DataFrame,
      sides: Seq[JoinSide],
      keys: Seq[String],
      how: JoinKind,
      rightNames: Seq[String],
      emits: Boolean
  ): DataFrame = {
    val needed = how match {
      case JoinKind.Inner => Seq(lefts, rights)
      case JoinKind.Left  => Seq(lefts)
      case JoinKind.Full  => Nil
    }
    val isLate = if (emits) col("late_row").isNotNull else lit(false)
    val matching = needed.map(rows => size(col(rows)) > 0).reduceOption(_ && _).fold(lists) { matches =>
      lists.where(matches || isLate)
    }
    val shared = (keys.map(JoinColumns.quoted) :+ "window") ++ Option.when(emits)("late_row")
    val exploded = matching
      .select(shared.map(col) ++ Seq(explode_outer(col(lefts)).as("left"), col(rights)): _*)
      .select(shared.map(col) ++ Seq(col("left"), explode_outer(col(rights)).as("right")): _*)
    def fields(side: JoinSide, names: Seq[String]) = side.fields.zip(names).map { case (field, name) =>
      col(s"${side.name}.${JoinColumns.quoted(field.name)}").as(name)
    }
    val late = Option.when(emits) {
      when(isLate, struct(sides.map(side => side.lateRow(keys).as(side.name)): _*)).as("late_row")
    }
    exploded.select(
      (keys.map(JoinColumns.quoted) :+ "window").map(col) ++ fields(sides.head, sides.head.fields.map(_.name)) ++
        fields(sides.last, rightNames) ++ late: _*
    )
  }
}
