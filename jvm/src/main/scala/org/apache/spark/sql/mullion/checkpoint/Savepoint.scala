package org.apache.spark.sql.mullion.checkpoint

import java.io.FileNotFoundException
import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID

import scala.annotation.tailrec
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, FileUtil, Path}
import org.json4s._
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.classic.{DataFrame, SparkSession}
import org.apache.spark.sql.execution.streaming.checkpointing.{CheckpointFileManager, CommitLog}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.exec.WindowExec
import org.apache.spark.sql.mullion.exec.programs.OperatorProgram
import org.apache.spark.sql.mullion.python.StatefulHeader
import org.apache.spark.sql.mullion.query.{CheckpointFiles, ClockNote}
import org.apache.spark.sql.mullion.shim.{BuildInfo, SparkLineShim}
import org.apache.spark.sql.mullion.state.{PartitionOpener, SavepointNote, StateChoice, StateLine}
import org.apache.spark.sql.mullion.state.header.{DrainHeader, OperatorHeader}
import org.apache.spark.sql.mullion.state.store.MemorySnapshots

import dev.mullion.MullionException

/** A checkpoint that is made of another one, as it stands between two batches: with another number of partitions,
  * another store, or another format. A query that starts from it goes on with the next batch.
  *
  * {{{
  *   batch         ..  15  16  17 (begun)        savepoint:  15  16
  *   offsets           *   *   *                             *   *     partitions: what is asked for
  *   commits           *   *                                     *     ids of versions: the new ones
  *   sources           *   *   *                             *   *
  *   state                 *                                     *     written anew, see [[StateCopy]]
  * }}}
  *
  * Numbers of batches stay, for sinks leave out a batch whose number they have seen. It is written beside the place
  * where it is to be, and renamed at last: whoever dies in between leaves nothing there.
  */
object Savepoint {

  /** What is asked.
    *
    * @param partitions
    *   how many state is to have, or as many as it has
    * @param state
    *   the store that it is to be in, or the one that it is in
    * @param format
    *   of the checkpoint, 1 or 2: whether versions of state have ids; or the one that it has
    */
  final case class Asked(partitions: Option[Int], state: Option[StateChoice], format: Option[Int])

  /** Writes a savepoint, and gives the number of the last batch in it.
    *
    * @param panes
    *   the query's own DataFrame, where its aggregates have no text
    */
  def write(spark: SparkSession, checkpoint: String, to: String, asked: Asked, panes: Option[DataFrame]): Long =
    spark.withActive {
      val hadoopConf = spark.sessionState.newHadoopConf()
      val target = free(to, hadoopConf)
      val source = CheckpointFiles.reading(checkpoint)(Source(spark, checkpoint, panes))
      val beside = new Path(target.getParent, s".${target.getName}.savepoint-${UUID.randomUUID()}")
      val fs = target.getFileSystem(hadoopConf)
      try {
        new Savepoint(spark, source, beside, asked).write()
        SavepointNote.write(spark, beside, source.batch)
        // A folder would be renamed into one that is there.
        if (fs.exists(target)) fs.delete(target, false)
        if (!fs.rename(beside, target)) throw MullionException.invalid(s"$beside could not be renamed to $target.")
        source.batch
      } catch {
        case e: Throwable =>
          try fs.delete(beside, true)
          catch { case NonFatal(other) => e.addSuppressed(other) }
          throw e
      }
    }

  /** Where nothing is yet. */
  private def free(to: String, hadoopConf: Configuration): Path = {
    if (to.trim.isEmpty) throw MullionException.invalid("to='' is not a folder: say where the savepoint is to be.")
    val path = new Path(to)
    val fs = path.getFileSystem(hadoopConf)
    if (fs.exists(path) && (!fs.getFileStatus(path).isDirectory || fs.listStatus(path).nonEmpty))
      throw MullionException.invalid(
        s"$to is there and is not an empty folder. A savepoint overwrites nothing: give a folder that is not there."
      )
    fs.makeQualified(path)
  }

  /** One of our operators.
    *
    * @param program
    *   what it does
    */
  private final case class Operator(state: OperatorState[OperatorHeader], program: OperatorProgram)

  /** A checkpoint between two batches.
    *
    * @param batch
    *   the last one that is done
    */
  private final case class Source(checkpoint: String, batch: Long, operators: Seq[Operator])

  private object Source {
    def apply(spark: SparkSession, checkpoint: String, panes: Option[DataFrame]): Source = {
      val hadoopConf = spark.sessionState.newHadoopConf()
      val home = new Path(checkpoint)
      val files = CheckpointFileManager.create(home, hadoopConf)
      if (!files.exists(new Path(home, "state")))
        throw MullionException.invalid(
          s"There is no state in $checkpoint: it has no folder 'state'. Give the checkpointLocation of a query with a window."
        )
      if (LostState.isBeingMade(files, home) || files.exists(new Path(home, "mullion-recovery")))
        throw MullionException.invalid(
          s"$checkpoint is about to be taken back to a snapshot. Call mullion.recover(\"$checkpoint\") or start its program, " +
            "and write the savepoint then."
        )
      val ids =
        files.list(new Path(home, "state")).map(_.getPath.getName).filter(_.forall(_.isDigit)).map(_.toInt).sorted
      ids.foreach(requireWindow(checkpoint, _, hadoopConf))
      val found = ids.toSeq.map { id =>
        val (state, program) = PanesReader.found(spark, checkpoint, id, panes, window = None)
        requireFormat(state, program)
        Operator(state, program)
      }
      if (found.isEmpty) throw MullionException.invalid(s"$checkpoint has no operator with state yet.")
      val version = found.map(_.state.version).min
      Source(checkpoint, version - 1, found.map(of => of.copy(state = at(spark, home, of.state, version))))
    }

    private def requireWindow(checkpoint: String, id: Int, hadoopConf: Configuration): Unit = {
      val root = new Path(new Path(checkpoint, "state"), id.toString)
      if (OperatorHeader.read(root, hadoopConf).isEmpty) {
        val what =
          if (StatefulHeader.read(root, hadoopConf).isDefined)
            "a function with state, as programs of Turbine, Faust and Bytewax have"
          else s"Spark's own (${nameOf(root, hadoopConf).getOrElse("of an unknown name")})"
        throw MullionException.unsupported(
          s"Operator $id of $checkpoint is $what. Savepoints are of queries whose operators with state are all windows of " +
            "Mullion's. Start the changed query with a new checkpointLocation."
        )
      }
    }

    private def nameOf(root: Path, hadoopConf: Configuration): Option[String] =
      try OperatorStateMetadataReader.createReader(root, hadoopConf, 1, 0L).read().map(_.operatorInfo.operatorName)
      catch { case NonFatal(_) => None }

    private def requireFormat(state: OperatorState[OperatorHeader], program: OperatorProgram): Unit = {
      val is = program.header.windows.map { case (name, header) => name -> header.format }.toMap
      state.header.windows.find { case (name, header) => is.get(name).exists(_ != header.format) }.foreach {
        case (name, header) =>
          throw MullionException.incompatibleState(
            s"State format of ${header.describe} in ${state.root} was [${header.format}] and is now [${is(name)}]. Nothing was " +
              "written. Let the query end its panes with the version of Mullion that wrote them."
          )
      }
    }

    /** State in memory may be older than that of other operators, which then goes back with it. */
    private def at(
        spark: SparkSession,
        home: Path,
        state: OperatorState[OperatorHeader],
        version: Long
    ): OperatorState[OperatorHeader] = {
      val hadoopConf = spark.sessionState.newHadoopConf()
      def header = OperatorHeader.readAt(new Path(state.root, state.operator.toString), hadoopConf, version)
      if (state.version == version) state
      else if (state.header.state == StateChoice.Memory.name)
        Recovery.snapshots(spark, home, state.operator, state.partitions).get(version) match {
          case Some(ids) => state.copy(version = version, checkpointIds = ids, header = header.getOrElse(state.header))
          case None      =>
            throw MullionException.stateLost(
              s"There is no snapshot of all operators in $home of one batch: stop the query."
            )
        }
      else {
        val log = new CommitLog(spark, new Path(home, "commits").toString)
        val ids = log.get(version - 1).flatMap(_.stateUniqueIds).flatMap(_.get(state.operator))
        state.copy(version = version, checkpointIds = ids, header = header.getOrElse(state.header))
      }
    }
  }
}

/** One savepoint, while it is written. */
private final class Savepoint(spark: SparkSession, source: Savepoint.Source, to: Path, asked: Savepoint.Asked) {
  import Savepoint.Operator

  private val hadoopConf = spark.sessionState.newHadoopConf()
  private val home = new Path(source.checkpoint)
  private val from = CheckpointFileManager.create(home, hadoopConf)
  private val files = CheckpointFileManager.create(to, hadoopConf)
  private val format = {
    val had = if (source.operators.exists(_.state.checkpointIds.isDefined)) 2 else 1
    asked.format.getOrElse(if (asked.state.contains(StateChoice.Hdfs)) 1 else had)
  }
  private val choices = source.operators.map(of => asked.state.getOrElse(of.program.state))

  if (format > 1 && choices.contains(StateChoice.Hdfs))
    throw MullionException.unsupported(
      "state='hdfs' and checkpoint_format=2: Spark's HDFS-backed store gives its versions no ids, which that format of " +
        "checkpoints has. Leave checkpoint_format out, or say state='rocksdb'."
    )
  source.operators.zip(choices).map { case (of, choice) => of.state.header -> choice }.foreach {
    case (drain: DrainHeader, StateChoice.Hdfs) =>
      throw MullionException.unsupported(
        s"state='hdfs' for a window that still drains (${drain.draining.describe}): Spark's HDFS store has no place for its " +
          "records beside those of the new one. Write the savepoint once the change is over and the query has started again."
      )
    case _ =>
  }
  if (source.batch > 0 && !SparkLineShim.beginsAnywhere)
    throw MullionException.unsupported(
      s"Spark ${BuildInfo.sparkLine} writes no state but the first version of one. Write the savepoint on Spark " +
        s"4.2 or newer; with ${StateLine.Setting}=ranges in the session, a query on 4.1 starts from it."
    )

  def write(): Unit = {
    val ids = source.operators.zip(choices).map { case (of, choice) => of.state.operator -> state(of, choice) }
    copySources()
    val partitions = asked.partitions.getOrElse(source.operators.head.state.partitions)
    // Spark reads the last two.
    Seq(source.batch - 1, source.batch).filter(_ >= 0).foreach(offsets(_, partitions))
    ClockNote.read(from, home).foreach(_.write(files, to))
    commit(ids)
    put("metadata", JObject("id" -> JString(UUID.randomUUID().toString)))
  }

  /** Writes an operator's state; the ids of the new version, by partition. */
  private def state(of: Operator, choice: StateChoice): Seq[Option[String]] = {
    val root = new Path(new Path(to, "state"), of.state.operator.toString)
    val partitions = asked.partitions.getOrElse(of.state.partitions)
    val copy = new StateCopy(spark, source.checkpoint, of.state, of.program, choice)
    if (choice == StateChoice.RocksDb) StateLine.begin(root, spark.sessionState.conf, hadoopConf)
    val opener = new PartitionOpener(
      choice,
      copy.to.families,
      root.getParent.toString,
      of.state.operator,
      UUID.randomUUID(),
      of.state.version - 1,
      None,
      new StateStoreConf(confOf(choice)),
      layout = StateLine.layoutIn(choice, root, hadoopConf)
    )
    val written = copy.write(opener, partitions)
    OperatorHeader.write(root, hadoopConf, of.state.header.inStore(choice.name))
    val stores = PartitionOpener.storeNames(choice, copy.to.families).map(StateStoreMetadataV1(_, 0, partitions))
    OperatorStateMetadataWriter
      .createWriter(root, hadoopConf, 1, None)
      .write(OperatorStateMetadataV1(OperatorInfoV1(of.state.operator, WindowExec.operatorName), stores.toArray))
    written.map(_.checkpointId)
  }

  /** As the query's own batches would open their stores. */
  private def confOf(choice: StateChoice): SQLConf = {
    val conf = PartitionOpener.confOf(choice, spark.sessionState.conf)
    val prefix = "spark.sql.streaming.stateStore."
    for {
      JObject(noted) <- metadata(source.batch) \ "conf"
      (key, JString(value)) <- noted
      if key.startsWith(prefix) && key != SQLConf.STATE_STORE_PROVIDER_CLASS.key
    } conf.setConfString(key, value)
    conf.setConf(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION, format)
    conf.setConfString(s"${prefix}commitValidation.enabled", "false")
    if (choice == StateChoice.Memory) conf.setConfString(MemorySnapshots.Every, "1")
    conf
  }

  /** What sources have noted. A query that runs may note more, and delete what it has noted elsewhere: then all is
    * copied again. What it notes of batches that are not in the savepoint a source finds again, and goes on from.
    */
  @tailrec
  private def copySources(attempts: Int = 5): Unit = {
    val sources = new Path(home, "sources")
    val copied =
      if (!from.exists(sources)) true
      else
        try {
          val (fs, other) = (home.getFileSystem(hadoopConf), to.getFileSystem(hadoopConf))
          val copy = new Path(to, "sources")
          if (other.exists(copy)) other.delete(copy, true)
          copyAll(fs, sources, other, copy)
          true
        } catch { case _: FileNotFoundException if attempts > 1 => false }
    if (!copied) copySources(attempts - 1)
  }

  private def copyAll(fs: FileSystem, folder: Path, other: FileSystem, into: Path): Unit = {
    other.mkdirs(into)
    fs.listStatus(folder).filterNot(_.getPath.getName.startsWith(".")).foreach { found =>
      val copy = new Path(into, found.getPath.getName)
      if (found.isDirectory) copyAll(fs, found.getPath, other, copy)
      else FileUtil.copy(fs, found.getPath, other, copy, false, true, hadoopConf)
    }
  }

  private def lines(log: String, batch: Long): Seq[String] = {
    val path = new Path(new Path(home, log), batch.toString)
    if (!from.exists(path))
      throw MullionException.stateLost(
        s"The file $path is not there any more, and state goes back to that batch. Stop the query, call " +
          s"mullion.recover(\"${source.checkpoint}\") if its state is in memory, and write the savepoint then."
      )
    new String(CheckpointFiles.read(from, path), UTF_8).linesIterator.toSeq
  }

  private def metadata(batch: Long): JValue = JsonMethods.parse(lines("offsets", batch)(1))

  private def offsets(batch: Long, partitions: Int): Unit = {
    val noted = lines("offsets", if (from.exists(new Path(home, s"offsets/$batch"))) batch else source.batch)
    val changed = JsonMethods.parse(noted(1)).transformField { case ("conf", JObject(conf)) =>
      val others = conf.filterNot(_._1 == SQLConf.SHUFFLE_PARTITIONS.key)
      "conf" -> JObject((SQLConf.SHUFFLE_PARTITIONS.key -> JString(partitions.toString)) :: others)
    }
    put(s"offsets/$batch", noted.updated(1, text(changed)))
  }

  private def commit(ids: Seq[(Long, Seq[Option[String]])]): Unit = {
    val noted = JsonMethods.parse(lines("commits", source.batch)(1)).removeField(_._1 == "stateUniqueIds")
    if (format == 1) put(s"commits/${source.batch}", Seq("v1", text(noted)))
    else {
      val of = ids.map { case (operator, partitions) =>
        operator.toString -> JArray(partitions.map(id => JArray(List(JString(id.getOrElse(""))))).toList)
      }
      put(
        s"commits/${source.batch}",
        Seq("v2", text(noted.merge(JObject("stateUniqueIds" -> JObject(of.toList)): JValue)))
      )
    }
  }

  private def text(json: JValue): String = JsonMethods.compact(JsonMethods.render(json))

  private def put(name: String, json: JValue): Unit = put(name, Seq(text(json)))

  private def put(name: String, lines: Seq[String]): Unit =
    CheckpointFiles.write(files, new Path(to, name), lines.mkString("\n").getBytes(UTF_8))
}
