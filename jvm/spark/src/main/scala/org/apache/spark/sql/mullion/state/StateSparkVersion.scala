package org.apache.spark.sql.mullion.state

import java.util.WeakHashMap

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s._

import org.apache.spark.SPARK_VERSION_SHORT
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.query.RunningQuery
import org.apache.spark.sql.mullion.shim.SparkVersionShim
import org.apache.spark.sql.mullion.state.header.HeaderFile
import org.apache.spark.sql.mullion.state.rocksdb.KeyLayout

import dev.mullion.MullionException

/** The Spark version on which a RocksDB state began, and its key layout, recorded once next to the state. So a query
  * continues on a newer Spark version with its existing keys:
  *
  * {{{
  *   begun on   keys         read on 4.0   4.1   4.2   4.3
  *   4.0, 4.1   ranges               yes   yes   yes   yes
  *   4.2, 4.3   timestamps           no    no    yes   yes
  * }}}
  */
private[mullion] final case class StateSparkVersion(spark: String, keys: String)

private[mullion] object StateSparkVersion {
  private implicit val formats: Formats = DefaultFormats

  private val file = new HeaderFile[StateSparkVersion]("spark.json", _.extract[StateSparkVersion])

  private val here = SPARK_VERSION_SHORT.split('.').take(2).mkString(".")

  /** State that was written before versions were recorded. */
  private val unnoted = StateSparkVersion("4.2", KeyLayout.Timestamps.name)

  // Entries are removed with their query, so they must not reference it.
  private val ofQueries = new WeakHashMap[StreamExecution, mutable.Map[Path, KeyLayout]]()

  /** The key layout of new states: older Spark versions can read `ranges` too. */
  val Setting = "spark.sql.streaming.stateStore.mullion.keys"

  /** Fails for a state whose keys this Spark version cannot read. */
  def check(info: SparkVersionShim.StateInfo, hadoopConf: Configuration): Unit = {
    val root = rootOf(info)
    file.read(root, hadoopConf).foreach(layoutOf(_, root))
  }

  /** Records the Spark version of a new state, and fails for one whose keys this version cannot read. */
  def settle(info: SparkVersionShim.StateInfo, conf: SQLConf, hadoopConf: Configuration): Unit = {
    val root = rootOf(info)
    val line = file.read(root, hadoopConf).getOrElse {
      if (info.storeVersion > 0) unnoted
      else {
        val own = ofNew(conf)
        file.write(root, hadoopConf, own)
        own
      }
    }
    layoutOf(line, root)
    ()
  }

  /** Records the Spark version of a new state. */
  def begin(root: Path, conf: SQLConf, hadoopConf: Configuration): Unit = file.write(root, hadoopConf, ofNew(conf))

  private def ofNew(conf: SQLConf): StateSparkVersion = {
    val setting = conf.getConfString(Setting, KeyLayout.own.name)
    if (!KeyLayout.readable.exists(_.name == setting))
      throw MullionException.invalid(
        s"$Setting=$setting is not one of ${KeyLayout.readable.map(_.name).mkString(", ")}, which Spark $here can write."
      )
    StateSparkVersion(here, setting)
  }

  /** The key layout of an operator, in a batch of a query. */
  def layoutOf(info: SparkVersionShim.StateInfo, session: SparkSession): KeyLayout =
    ofQueries.synchronized {
      val root = rootOf(info)
      def read = layoutIn(root, session.sessionState.newHadoopConf())
      RunningQuery.find(session, info.queryRunId) match {
        case Some(query) =>
          ofQueries
            .computeIfAbsent(query, _ => mutable.Map.empty[Path, KeyLayout])
            .getOrElseUpdate(root, read)
        case None => read
      }
    }

  /** The key layout in the folder of an operator's state. */
  def layoutIn(root: Path, hadoopConf: Configuration): KeyLayout =
    layoutOf(file.read(root, hadoopConf).getOrElse(unnoted), root)

  private def layoutOf(was: StateSparkVersion, root: Path): KeyLayout =
    KeyLayout.readable.find(_.name == was.keys).getOrElse {
      throw MullionException.incompatibleState(
        s"The checkpoint ${root.getParent.getParent} was begun on Spark ${was.spark}, and this is Spark $here: it keeps " +
          s"the keys of state in RocksDB by another encoder ('${was.keys}'), which Spark $here does not have. Nothing was " +
          s"overwritten. Run the query on Spark ${was.spark} or newer, or start it with a new checkpointLocation."
      )
    }

  private def rootOf(info: SparkVersionShim.StateInfo) = new Path(info.checkpointLocation, info.operatorId.toString)
}
