package org.apache.spark.sql.mullion.state.header

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s._

import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.shim.SparkLineShim

/** What an operator's state means, written beside it once: of one window, or of several that share the operator. */
trait OperatorHeader {

  /** What the state of each window means, by its name if there are several. */
  def windows: Seq[(Option[String], StateHeader)]

  /** The kind of record with the store's first place, where that is not the first one of the first window by name. */
  def first: Option[FirstRecords]

  /** What rows are shuffled by, as SQL: in which partition state is depends on it. */
  def sharedBy: Seq[String]

  /** Of a query that starts: the windows of before whose panes are dropped. */
  def dropped: Seq[String] = Nil

  /** The windows in words. */
  def describe: String

  /** What is not as it was, in words: an operator with another header could not read the state. */
  def differences(other: OperatorHeader): Seq[String]

  /** What becomes of the state if the operator is now the other one. */
  def changeTo(other: OperatorHeader): StateChange

  /** This header, of state that goes on from what another one says.
    *
    * @param clockBefore
    *   the event clock before the first batch under this one, in microseconds, if it is known
    */
  def after(was: OperatorHeader, clockBefore: Option[Long] = None): OperatorHeader

  /** This header, of state that is written anew, where the records of each window are under its own name. */
  def withOwnPlaces: OperatorHeader

  /** This header with some windows' types of columns, by their names, as `other` has them; `*` is a window alone. */
  def typedAs(other: OperatorHeader, windows: Set[String]): OperatorHeader
}

/** What the state of several windows means, of each by its name.
  *
  * @param shared
  *   what rows are shuffled by, as SQL: where state is depends on it
  * @param drops
  *   of a query that starts: the windows of before whose panes are dropped
  */
final case class TogetherHeader(
    shared: List[String],
    together: Map[String, StateHeader],
    first: Option[FirstRecords] = None,
    drops: Option[List[String]] = None
) extends OperatorHeader {
  override def sharedBy: Seq[String] = shared

  override def dropped: Seq[String] = drops.getOrElse(Nil)

  def names: Seq[String] = together.keys.toSeq.sorted

  override def windows: Seq[(Option[String], StateHeader)] = names.map(name => Some(name) -> together(name))

  override def describe: String = names.map(name => s"$name: ${together(name).describe}").mkString("; ")

  override def differences(other: OperatorHeader): Seq[String] = other match {
    case several: TogetherHeader if several.names == names =>
      val windows = names.flatMap { name =>
        together(name).differences(several.together(name)).map(what => s"of the window '$name' $what")
      }
      def by(header: TogetherHeader) = header.shared.mkString(", ")
      windows ++ Option.when(windows.isEmpty && several.shared != shared)(
        s"the rows were shuffled by [${by(this)}] and are now by [${by(several)}]"
      ) ++ OperatorHeader.otherPlaces(this, several)
    case several: TogetherHeader =>
      Seq(s"the windows together were [${names.mkString(", ")}] and are now [${several.names.mkString(", ")}]")
    case one => Seq(s"it was of several windows together ($describe) and is now of one (${one.describe})")
  }

  override def after(was: OperatorHeader, clockBefore: Option[Long]): OperatorHeader = copy(drops = None)

  override def changeTo(other: OperatorHeader): StateChange = other match {
    case drain: DrainHeader => StateChange(Nil, differences(drain))
    case several: TogetherHeader if several.names == names && several.shared != shared =>
      StateChange(Nil, differences(several))
    case others => Regrouped.change(this, others)
  }

  override def withOwnPlaces: OperatorHeader =
    copy(together = together.map { case (name, header) => name -> header.withOwnPlaces }, first = None)

  override def typedAs(other: OperatorHeader, of: Set[String]): OperatorHeader = other match {
    case several: TogetherHeader if several.names == names =>
      val typed = together.map {
        case (name, header) if of(name) => name -> header.typesOf(several.together(name))
        case same                       => same
      }
      val shuffled = shared.zipAll(several.shared, "", "").map {
        // Rows of the other windows have a null there, whatever its type.
        case (was, is) if was.takeWhile(_ != ' ') == is.takeWhile(_ != ' ') => is
        case (was, _)                                                       => was
      }
      copy(shared = shuffled, together = typed)
    case _ => this
  }
}

object OperatorHeader {

  /** The windows, by their names, that have been given no rows yet in all that has been committed: what their state
    * means may still change, for there is none. Lines of names, or `*` for a window alone.
    */
  val Unbegun = "spark.sql.streaming.stateStore.mullion.unbegun"

  private implicit val formats: Formats = DefaultFormats

  /** That two headers of the same windows have their records under other names, in words. */
  private[header] def otherPlaces(was: OperatorHeader, now: OperatorHeader): Option[String] = {
    def said(of: OperatorHeader) =
      (of.windows.map(_._2.place.getOrElse("its own name")) ++ of.first.map(_.name)).mkString(", ")
    Option.when(said(was) != said(now))(
      s"records are kept under [${said(was)}] and would be looked for under [${said(now)}] (the extension that " +
        "mullion.configure sets looks where they are)"
    )
  }

  private val file = new HeaderFile[OperatorHeader]("header.json", of)

  private def of(json: JValue): OperatorHeader = {
    val header =
      if (json \ "together" != JNothing) json.extract[TogetherHeader]
      else if (json \ "draining" != JNothing) json.extract[DrainHeader]
      else json.extract[StateHeader]
    // Of JSON with something left out, parts would be missing where they are looked at.
    header.differences(header)
    header.describe
    header.windows.foreach(_._2.clock.length)
    header
  }

  /** Compares the operator with the state that it is about to read, and fails before anything is written if they do not
    * go together; in a new checkpoint, writes what the state will mean.
    *
    * What state means is written for a version of it, from which on it holds. A change of the query is written under
    * the version that its first batch will leave: see [[changed]]. Until that is committed, the query of before goes on
    * as it was.
    *
    * {{{
    *   version of state     0 .. 16        17 ..
    *   what it means        header.json    header.17.json
    * }}}
    *
    * @param isAdaptable
    *   whether state of before can be made what the operator wants
    */
  def check(
      header: OperatorHeader,
      info: SparkLineShim.StateInfo,
      hadoopConf: Configuration,
      isWritten: Boolean,
      unbegun: Set[String],
      isAdaptable: Boolean
  ): Unit = {
    def replaces(was: OperatorHeader, now: OperatorHeader) =
      was.differences(now).nonEmpty && unbegun.nonEmpty && was.typedAs(now, unbegun).differences(now).isEmpty
    def said(of: OperatorHeader) = of.windows.map { case (_, window) =>
      (window.aggregates, window.functions, window.input, window.time, window.delay)
    }
    def renames(was: OperatorHeader, now: OperatorHeader) = said(was) != said(now) && was.differences(now).isEmpty
    file.check(
      info,
      hadoopConf,
      header,
      "another query",
      isWritten,
      replaces,
      renames,
      _.after(_),
      // Where no batch has been committed there is no state that means anything, if its first one is yet to run.
      (was, now) => Option.when(isAdaptable)(if (info.storeVersion == 0) StateChange.begins else was.changeTo(now))
    )(_.differences(_))
  }

  /** Notes, before the first batch of a query that has changed, what state will mean after it. */
  def changed(root: Path, hadoopConf: Configuration, version: Long, header: OperatorHeader): Unit =
    file.writeFrom(version + 1, root, hadoopConf, header)

  /** Forgets what was noted for versions after `version` that have been given up. */
  def forgetAfter(root: Path, hadoopConf: Configuration, version: Long): Unit =
    file.forgetAfter(root, hadoopConf, version)

  /** What a session says of windows that have been given no rows. */
  def unbegun(conf: SQLConf): Set[String] = conf.getConfString(Unbegun, "").linesIterator.filter(_.nonEmpty).toSet

  /** Writes what the state of a savepoint means. */
  def write(operatorRoot: Path, hadoopConf: Configuration, header: OperatorHeader): Unit =
    file.write(operatorRoot, hadoopConf, header)

  /** What an operator's state meant when it began. */
  def read(operatorRoot: Path, hadoopConf: Configuration): Option[OperatorHeader] = file.read(operatorRoot, hadoopConf)

  /** What a version of it means. */
  def readAt(operatorRoot: Path, hadoopConf: Configuration, version: Long): Option[OperatorHeader] =
    file.readAt(operatorRoot, hadoopConf, version)
}
