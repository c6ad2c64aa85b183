package org.apache.spark.sql.mullion.state.header

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s._

import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.shim.SparkVersionShim

/** The meaning of an operator's state, written next to it once: of one window, or of several that share the operator.
  */
trait OperatorHeader {

  /** The meaning of each window's state, by name if there are several. */
  def windows: Seq[(Option[String], StateHeader)]

  /** The kind of record in the store's default place, if it is not the first kind of the first window by name. */
  def first: Option[FirstRecords]

  /** The shuffle keys as SQL, which determine the partition of state. */
  def sharedBy: Seq[String]

  /** At the start of a query: the previous windows whose panes are dropped. */
  def dropped: Seq[String] = Nil

  /** The windows as text. */
  def describe: String

  /** The differences that make the state unreadable for an operator with the other header, as text. */
  def differences(other: OperatorHeader): Seq[String]

  /** The transition of the state to an operator with the other header. */
  def changeTo(other: OperatorHeader): StateChange

  /** This header as the continuation of another one.
    *
    * @param clockBefore
    *   the event clock before the first batch under this header, in microseconds, if known
    */
  def after(was: OperatorHeader, clockBefore: Option[Long] = None): OperatorHeader

  /** This header for rewritten state, where the records of each window are under its own name. */
  def withOwnPlaces: OperatorHeader

  /** This header with `other`'s column types for some windows, by name; `*` is a single window. */
  def typedAs(other: OperatorHeader, windows: Set[String]): OperatorHeader
}

/** The meaning of the state of several windows, by name.
  *
  * @param shared
  *   the shuffle keys as SQL, which determine the partition of state
  * @param drops
  *   at the start of a query: the previous windows whose panes are dropped
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
      Seq(s"the windows were [${names.mkString(", ")}] and are now [${several.names.mkString(", ")}]")
    case one => Seq(s"it was of several windows ($describe) and is now of one (${one.describe})")
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

  /** The windows without any committed rows: the meaning of their state may still change, because it is empty. Their
    * names, one per line, or `*` for a single window.
    */
  val Unbegun = "spark.sql.streaming.stateStore.mullion.unbegun"

  private implicit val formats: Formats = DefaultFormats

  /** A description of records that two headers of the same windows have under different names. */
  private[header] def otherPlaces(was: OperatorHeader, now: OperatorHeader): Option[String] = {
    def described(of: OperatorHeader) =
      (of.windows.map(_._2.place.getOrElse("its own name")) ++ of.first.map(_.name)).mkString(", ")
    Option.when(described(was) != described(now))(
      s"records are kept under [${described(was)}] and would be looked for under [${described(now)}] (the extension that " +
        "mullion.configure sets looks where they are)"
    )
  }

  private val file = new HeaderFile[OperatorHeader]("header.json", of)

  private def of(json: JValue): OperatorHeader = {
    val header =
      if (json \ "together" != JNothing) json.extract[TogetherHeader]
      else if (json \ "draining" != JNothing) json.extract[DrainHeader]
      else json.extract[StateHeader]
    // Fails here if a part of the JSON is missing, not at its first use.
    header.differences(header)
    header.describe
    header.windows.foreach(_._2.clock.length)
    header
  }

  /** Compares the operator with its state, and fails before anything is written if they do not match. In a new
    * checkpoint, writes the meaning of the state.
    *
    * The meaning holds from a version of the state on. A change of the query is written under the version that its
    * first batch will write: see [[changed]]. Until that batch is committed, the previous query still works.
    *
    * {{{
    *   version of state     0 .. 16        17 ..
    *   meaning              header.json    header.17.json
    * }}}
    *
    * @param isAdaptable
    *   whether existing state can be converted for the operator
    */
  def check(
      header: OperatorHeader,
      info: SparkVersionShim.StateInfo,
      hadoopConf: Configuration,
      isWritten: Boolean,
      unbegun: Set[String],
      isAdaptable: Boolean
  ): Unit = {
    def replaces(was: OperatorHeader, now: OperatorHeader) =
      was.differences(now).nonEmpty && unbegun.nonEmpty && was.typedAs(now, unbegun).differences(now).isEmpty
    def described(of: OperatorHeader) = of.windows.map { case (_, window) =>
      (window.aggregates, window.functions, window.input, window.time, window.delay)
    }
    def renames(was: OperatorHeader, now: OperatorHeader) =
      described(was) != described(now) && was.differences(now).isEmpty
    file.check(
      info,
      hadoopConf,
      header,
      "another query",
      isWritten,
      replaces,
      renames,
      _.after(_),
      // Without a committed batch there is no state yet, so any header is acceptable.
      (was, now) => Option.when(isAdaptable)(if (info.storeVersion == 0) StateChange.begins else was.changeTo(now))
    )(_.differences(_))
  }

  /** Records, before the first batch of a changed query, the meaning of the state after it. */
  def changed(root: Path, hadoopConf: Configuration, version: Long, header: OperatorHeader): Unit =
    file.writeFrom(version + 1, root, hadoopConf, header)

  /** Forgets the records for abandoned versions after `version`. */
  def forgetAfter(root: Path, hadoopConf: Configuration, version: Long): Unit =
    file.forgetAfter(root, hadoopConf, version)

  /** The windows without rows, from a session. */
  def unbegun(conf: SQLConf): Set[String] = conf.getConfString(Unbegun, "").linesIterator.filter(_.nonEmpty).toSet

  /** Writes the meaning of a savepoint's state. */
  def write(operatorRoot: Path, hadoopConf: Configuration, header: OperatorHeader): Unit =
    file.write(operatorRoot, hadoopConf, header)

  /** The original meaning of an operator's state. */
  def read(operatorRoot: Path, hadoopConf: Configuration): Option[OperatorHeader] = file.read(operatorRoot, hadoopConf)

  /** The meaning of one version. */
  def readAt(operatorRoot: Path, hadoopConf: Configuration, version: Long): Option[OperatorHeader] =
    file.readAt(operatorRoot, hadoopConf, version)
}
