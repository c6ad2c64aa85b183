package org.apache.spark.sql.mullion.state.header

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s._

import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.shim.SparkLineShim

/** What an operator's state means, written beside it once: of one window, or of several that share the operator. */
trait OperatorHeader {

  /** The state store, by its name. */
  def state: String

  /** What the state of each window means, by its name if there are several. */
  def windows: Seq[(Option[String], StateHeader)]

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

  /** This header, of state in another store. */
  def inStore(state: String): OperatorHeader

  /** This header with some windows' types of columns, by their names, as `other` has them; `*` is a window alone. */
  def typedAs(other: OperatorHeader, windows: Set[String]): OperatorHeader
}

/** What the state of several windows means, of each by its name.
  *
  * @param shared
  *   what rows are shuffled by, as SQL: where state is depends on it
  */
final case class TogetherHeader(shared: List[String], together: Map[String, StateHeader]) extends OperatorHeader {
  override def state: String = together.head._2.state

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
      )
    case several: TogetherHeader =>
      Seq(s"the windows together were [${names.mkString(", ")}] and are now [${several.names.mkString(", ")}]")
    case one => Seq(s"it was of several windows together ($describe) and is now of one (${one.describe})")
  }

  override def after(was: OperatorHeader, clockBefore: Option[Long]): OperatorHeader = this

  override def changeTo(other: OperatorHeader): StateChange = other match {
    case several: TogetherHeader if several.names == names && several.shared == shared => ofWindows(several)
    case several: TogetherHeader if names.forall(several.names.contains)               =>
      whyNoMore(several).fold {
        val added = several.names.diff(names).map(name => s"the window '$name' is new: it holds the rows from now on")
        StateChange(added, Nil) ++ ofWindows(several)
      }(why => StateChange(Nil, differences(other).map(what => s"$what: $why")))
    case _ => StateChange(Nil, differences(other))
  }

  /** What becomes of the windows that there were. */
  private def ofWindows(other: TogetherHeader): StateChange = names
    .map(name => StateChange(together(name), other.together(name), isAlone = false).of(name))
    .foldLeft(StateChange.none)(_ ++ _)

  /** Why windows cannot be added, if they cannot. */
  private def whyNoMore(other: TogetherHeader): Option[String] =
    if (other.shared != shared || shared.exists(_.startsWith("window_number ")))
      Some("where the state of a key lies depends on them, since not all have the same keys")
    else if (state == "hdfs")
      Some("Spark's HDFS store has no place for another window's records while a query has state")
    else if (other.names.head != names.head)
      Some(
        s"the records of the first one by name have a place of their own (give the new one a name after '${names.head}')"
      )
    else None

  override def inStore(state: String): OperatorHeader = copy(together = together.map { case (name, header) =>
    name -> header.inStore(state)
  })

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
      TogetherHeader(shuffled, typed)
    case _ => this
  }
}

object OperatorHeader {

  /** The windows, by their names, that have been given no rows yet in all that has been committed: what their state
    * means may still change, for there is none. Lines of names, or `*` for a window alone.
    */
  val Unbegun = "spark.sql.streaming.stateStore.mullion.unbegun"

  private implicit val formats: Formats = DefaultFormats

  private val file = new HeaderFile[OperatorHeader]("header.json", of)

  private def of(json: JValue): OperatorHeader = {
    val header =
      if (json \ "together" != JNothing) json.extract[TogetherHeader]
      else if (json \ "draining" != JNothing) json.extract[DrainHeader]
      else json.extract[StateHeader]
    // Of JSON with something left out, parts would be missing where they are looked at.
    header.differences(header)
    header.describe
    header.state.length
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
    // Where no batch has been committed there is no state that means anything.
    def isEmpty = isAdaptable && info.storeVersion == 0
    def replaces(was: OperatorHeader, now: OperatorHeader) = was.differences(now).nonEmpty &&
      (isEmpty || unbegun.nonEmpty && was.typedAs(now, unbegun).differences(now).isEmpty)
    def said(of: OperatorHeader) = of.windows.map { case (_, window) => window.aggregates -> window.functions }
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
      (was, now) => Option.when(isAdaptable)(was.changeTo(now))
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
