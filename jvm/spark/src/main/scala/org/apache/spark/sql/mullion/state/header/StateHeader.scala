package org.apache.spark.sql.mullion.state.header

import dev.mullion.windows.rules.{Collected, EarlyFiring, Refinements, RowByRow}
import dev.mullion.windows.spec.{Duration, Setting}

/** The meaning of an operator's state, written next to it once. Spark only checks the widths of columns and the
  * operator's name, so another window or aggregate of the same width would read old state as its own.
  *
  * Lengths of time are microseconds.
  *
  * @param format
  *   the layout of the state's records
  * @param keys
  *   names and types of the key columns
  * @param aggregates
  *   the output columns as SQL over `input`
  * @param buffers
  *   the types of the accumulators' columns
  * @param input
  *   the columns that keys and aggregates read, as JSON of a Spark schema
  * @param by
  *   the key columns as SQL over `input`
  * @param rows
  *   the additional options if rows are processed one by one
  * @param byShard
  *   whether the partition of a key is that of the previous stage instead of its hash
  * @param dedupe
  *   the deduplication columns, as SQL over `input`
  * @param functions
  *   the functions whose accumulators state holds, in order, if their texts identify them
  * @param fromNow
  *   whether panes record which functions have seen all their rows
  * @param closedTo
  *   the end of the last pane that had closed when the lateness changed, in microseconds: panes that end by then stay
  *   closed
  * @param ticks
  *   whether its query has a source that requests batches without rows, if known
  * @param drained
  *   at the start of a query: the boundary of the previous window, in microseconds, if that window needs no state any
  *   more
  * @param place
  *   the name under which its records are stored, if it differs from the window's: see [[RecordPlaces]]
  * @param first
  *   for a single window: the kind of record in the store's default place, if it is none of its own
  * @param drops
  *   for a single window, at the start of a query: the previous windows whose panes are dropped
  * @param time
  *   the event time as SQL over `input`
  * @param typed
  *   for each function by its text, and for the window by its name, the columns of `input` whose types affect its state
  *   without showing in its buffers
  * @param delay
  *   the longest watermark delay that the query has had, in microseconds
  * @param lastValues
  *   the values of the last close that state holds for each key, as SQL over `input` with their types
  */
final case class StateHeader(
    format: Int,
    window: HeaderWindow,
    allowedLateness: Long,
    earlyEvery: Long,
    earlyUnchanged: Boolean,
    refinements: Refinements,
    clock: String,
    keys: List[String],
    aggregates: List[String],
    buffers: List[String],
    input: String,
    by: List[String],
    rows: Option[StateHeader.Rows] = None,
    byShard: Option[Boolean] = None,
    earlyByWall: Option[Boolean] = None,
    dedupe: Option[List[String]] = None,
    functions: Option[List[StateHeader.Function]] = None,
    fromNow: Option[Boolean] = None,
    closedTo: Option[Long] = None,
    ticks: Option[Boolean] = None,
    drained: Option[Long] = None,
    place: Option[String] = None,
    first: Option[FirstRecords] = None,
    drops: Option[List[String]] = None,
    time: Option[String] = None,
    typed: Option[Map[String, List[String]]] = None,
    delay: Option[Long] = None,
    lastValues: Option[List[String]] = None
) extends OperatorHeader {
  override def sharedBy: Seq[String] = keys

  override def dropped: Seq[String] = drops.getOrElse(Nil)

  def early: Option[EarlyFiring] =
    if (earlyEvery == 0) None else Some(EarlyFiring(earlyEvery, earlyUnchanged, earlyByWall.contains(true)))

  /** True if panes fire before they close, so that firings are recorded. */
  def firesOpen: Boolean = early.isDefined || refinements.fires || refinements.remembers

  /** The properties that state depends on, with their names in messages. */
  private[header] def identity: Seq[(String, String)] = Seq(
    "state format" -> readAs.toString,
    "window" -> window.describe,
    "allowed lateness" -> Duration.describe(allowedLateness),
    "early firing" -> early.fold("none")(_.describe),
    "firings" -> (if (refinements.describe.isEmpty) "none" else refinements.describe.mkString(", ")),
    // Ids of other windows follow from their bounds.
    "ids of sessions" -> (if (refinements.ids && window.isSession) "kept" else "not kept"),
    "clock" -> clock,
    "keys" -> keys.mkString(", "),
    "aggregates" -> aggregates.mkString(", "),
    "accumulators" -> buffers.mkString(", "),
    "dedupe_by" -> dedupe.fold("none")(_.mkString(", ")),
    "rows one by one" -> rows.fold("no")(_.describe),
    "new aggregates" -> (if (fromNow.contains(true)) "from now" else "reject"),
    "distribution" -> (if (byShard.contains(true)) "by shard" else "by key"),
    "values of the last close" -> lastValues.fold("none")(_.mkString(", "))
  )

  /** The oldest format that is read like this one. */
  private[mullion] def readAs: Int =
    if (format == StateHeader.blocksFormat && sharesSlices) StateHeader.currentFormat else format

  private def sharesSlices = window.overlaps && refinements.accumulate && rows.isEmpty

  override def windows: Seq[(Option[String], StateHeader)] = Seq(None -> this)

  override def describe: String = window.describe

  override def changeTo(other: OperatorHeader): StateChange = other match {
    case one: StateHeader =>
      OperatorHeader.otherPlaces(this, one).map(StateChange.refused).getOrElse(StateChange(this, one, isAlone = true))
    case drain: DrainHeader =>
      // The rows of both windows have the new event time from the boundary on.
      StateChange(copy(time = drain.draining.time), drain.draining, isAlone = false) ++
        StateChange.drains(s"${replacedBy(drain.next)}: ${drain.inWords}")
    case several => Regrouped.change(this, several)
  }

  override def withOwnPlaces: StateHeader = copy(place = None, first = None)

  override def after(was: OperatorHeader, clockBefore: Option[Long]): OperatorHeader = was match {
    case one: StateHeader =>
      val closed = clockBefore.filter(_ => one.allowedLateness != allowedLateness).map(StateChange.closedTo(one, _))
      copy(
        closedTo = closed orElse one.closedTo,
        drained = None,
        drops = None,
        delay = (delay ++ one.delay).maxOption
      )
    case drain: DrainHeader => after(drain.alone, clockBefore)
    case _                  => copy(drops = None)
  }

  /** True if state contains entire rows. */
  private[header] def keepsRows: Boolean = rows.exists(r => r.collectName.isDefined || r.splitOver.isDefined)

  override def differences(other: OperatorHeader): Seq[String] = other match {
    case one: StateHeader =>
      val different = identity.zip(one.identity).collect {
        case ((name, was), (_, is)) if was != is && !(name == "aggregates" && isRenamed(one)) =>
          s"$name was [$was] and is now [$is]"
      }
      // The texts contain the types, which accumulators of lists lack.
      def texts(of: StateHeader) = of.functions.map(_.map(_.text).mkString(", "))
      val typed = texts(this).zip(texts(one)).filter { case (was, is) => different.isEmpty && was != is }
      different ++ typed.map { case (was, is) => s"aggregates was [$was] and is now [$is]" } ++
        OperatorHeader.otherPlaces(this, one) ++ unseenBySpark(one)
    case drain: DrainHeader => Seq(replacedBy(drain.next))
    case several => Seq(s"it was of one window ($describe) and is now of several together (${several.describe})")
  }

  /** Differences that neither the texts of aggregates nor the types of their buffers show, as text. */
  private[header] def unseenBySpark(other: StateHeader): Seq[String] =
    unseenButTypes(other) ++ new RetypedColumns(this, other).hidden

  /** The same without the types of columns. */
  private[header] def unseenButTypes(other: StateHeader): Seq[String] =
    (otherTime(other) ++ otherIds(other)).toSeq ++ otherKeys(other)

  /** The differences that a replacement of the window covers, as text: the window and the event time. */
  private def replacedBy(next: StateHeader): String = {
    val window = Option.when(describe != next.describe)(s"window was [$describe] and is now [${next.describe}]")
    (window ++ timeChange(next.time)).mkString(", ")
  }

  /** The change of the event time, as text; none if it is the same. */
  private[mullion] def timeChange(now: Option[String]): Option[String] =
    for (was <- time; is <- now if was != is) yield s"the event time was [$was] and is now [$is]"

  private def otherTime(other: StateHeader): Option[String] = timeChange(other.time).map { change =>
    val drain = if (rows.isEmpty) s"; with ${Setting.DrainWindow} they stay open until they close" else ""
    s"$change: open panes hold rows by the other one (if only the column's name has changed, give it its old name before " +
      s"the window$drain)"
  }

  /** Keys of the same names and types with other values, as text. */
  private[header] def otherKeys(other: StateHeader): Seq[String] =
    if (keys != other.keys) Nil
    else
      by.zip(other.by).collect {
        case (was, is) if was != is && !ColumnTexts.isSameValue(was, is) =>
          s"the key was [$was] and is now [$is]: open panes have keys by the other expression"
      }

  private def otherIds(other: StateHeader): Option[String] = {
    val (was, is) = (refinements.generation, other.refinements.generation)
    Option.when(other.refinements.ids && was != is)(
      s"the ids of panes have the number of the batch in which their window began, $was, and would have $is (the extension " +
        "that mullion.configure sets takes it from the checkpoint)"
    )
  }

  /** The name of a column does not affect state. */
  private[header] def isRenamed(other: StateHeader): Boolean =
    aggregates.length == other.aggregates.length &&
      aggregates.zip(other.aggregates).forall { case (was, is) => was == is || ColumnTexts.isRenamed(was, is) }

  override def typedAs(other: OperatorHeader, windows: Set[String]): OperatorHeader = other match {
    case one: StateHeader if windows("*") => typesOf(one)
    case _                                => this
  }

  private[state] def typesOf(other: StateHeader): StateHeader =
    copy(
      keys = other.keys,
      aggregates = other.aggregates,
      buffers = other.buffers,
      input = other.input,
      by = other.by,
      functions = other.functions
    )
}

object StateHeader {

  /** The window, among the functions whose state depends on types of columns. */
  val Itself: String = "the window and its keys"

  /** An aggregate function.
    *
    * @param text
    *   as SQL over `input`, with the result type
    * @param buffers
    *   the types of its accumulator's columns
    */
  final case class Function(text: String, buffers: List[String]) {

    /** True if its accumulators may span several records. */
    def isInChunks: Boolean = buffers.exists(_.endsWith(Function.InChunks))

    /** True if its distinct values may be in records of their own. */
    def isByValue: Boolean = buffers.exists(_.endsWith(Function.ByValue))

    /** True if it tracks which of the others are complete. */
    def isKnowing: Boolean = text.startsWith(s"${Function.Knowing} ")
  }

  object Function {

    /** The suffix for list buffers that may span several records. */
    val InChunks: String = " in chunks"

    /** The suffix for distinct values, which may have records of their own. */
    val ByValue: String = " by value"

    /** The name of the function that tracks complete aggregates. */
    val Knowing: String = "known_aggregates"
  }

  /** Options where rows are processed one by one. The delay of keys' clocks and the row limit of a pane may change:
    * neither affects the meaning of state.
    *
    * @param forgets
    *   whether records of keys have the time of their last rows
    * @param splitOver
    *   the columns passed to a function that splits global windows
    * @param buffered
    *   names and types of the columns that are then stored per row
    */
  final case class Rows(
      running: Boolean,
      delayByKey: Option[Long],
      collectByTime: Option[Boolean],
      collectName: Option[String],
      collectMax: Option[Long],
      splitOver: Option[List[String]] = None,
      buffered: Option[List[String]] = None,
      keysFollowWall: Option[Boolean] = None,
      forgets: Option[Boolean] = None
  ) {
    def options: RowByRow = RowByRow(
      running,
      delayByKey,
      for (byTime <- collectByTime; name <- collectName; max <- collectMax) yield Collected(byTime, name, max),
      keysFollowWall.contains(true),
      // The length is no part of the state.
      forgetAfter = forgets.filter(identity).map(_ => Long.MaxValue)
    )

    def describe: String = Seq(
      Some("in order of arrival"),
      Option.when(running)("each fires its panes"),
      delayByKey.map(_ => "each key has its own clock"),
      keysFollowWall.filter(identity).map(_ => "which advances with the wall clock"),
      forgets.filter(identity).map(_ => "keys without rows are forgotten"),
      collectByTime.map(byTime => s"collected by ${if (byTime) "time" else "arrival"}"),
      splitOver.map(columns => s"split over ${columns.mkString(", ")}"),
      buffered.map(columns => s"buffered with ${columns.mkString(", ")}")
    ).flatten.mkString(", ")
  }

  object Rows {
    def apply(asked: RowByRow): Rows = Rows(
      asked.running,
      asked.delayByKey,
      asked.collect.map(_.byTime),
      asked.collect.map(_.name),
      asked.collect.map(_.maxRows),
      keysFollowWall = Option.when(asked.keysFollowWall)(true),
      forgets = asked.forgetAfter.map(_ => true)
    )
  }

  /** Raised when the layout of the records changes. */
  val currentFormat = 1

  /** The format of sessions: in format 1, records of keys had no accumulators. */
  val sessionsFormat = 2

  /** The format of overlapping windows that share slices. Format 1 has one record per slice and is still read; older
    * versions of Mullion cannot read format 2.
    */
  val blocksFormat = 2

  /** The format of overlapping windows without shared slices. In format 1, panes were identified by their starts. */
  val numberedFormat = 2
}
