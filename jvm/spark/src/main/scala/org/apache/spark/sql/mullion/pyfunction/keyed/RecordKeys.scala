package org.apache.spark.sql.mullion.pyfunction.keyed

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s._
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.mullion.pyfunction.agents.TablePlaces
import org.apache.spark.sql.mullion.pyfunction.dataflow.FlowPlaces
import org.apache.spark.sql.mullion.pyfunction.state.ShardPlaces
import org.apache.spark.sql.mullion.state.header.HeaderFile

/** The encoding of shards in the keys of functions' records, recorded next to state with each start that adds
  * information: after a change of the number of partitions each record must move with the rows of its key. Functions
  * whose keys contain no shard have no such file.
  *
  * @param of
  *   the owner: `keys` of a dataflow, or `tables`
  * @param tables
  *   the names of all tables that have ever existed
  * @param timers
  *   the numbers of the timers that are called in each partition
  * @param isOneShard
  *   whether the rows of all keys are in one partition
  */
final case class RecordKeys(
    of: String,
    tables: List[String] = Nil,
    timers: List[Int] = Nil,
    isOneShard: Boolean = false
) {
  def places: ShardPlaces = of match {
    case RecordKeys.OfFlow   => FlowPlaces
    case RecordKeys.OfTables => new TablePlaces(tables, timers.toSet, isOneShard)
    case other               => throw new IllegalArgumentException(s"$other has no places")
  }
}

object RecordKeys {
  val OfFlow = "keys"
  val OfTables = "tables"

  private implicit val formats: Formats = DefaultFormats

  private val file = new HeaderFile[RecordKeys]("keys.json", of)

  private def of(json: JValue): RecordKeys = {
    val keys = json.extract[RecordKeys]
    keys.places
    keys
  }

  def apply(json: String): RecordKeys = of(JsonMethods.parse(json))

  def read(operatorRoot: Path, hadoopConf: Configuration): Option[RecordKeys] =
    file.readAt(operatorRoot, hadoopConf, Long.MaxValue)

  /** Records the information of the functions, when a query starts from a version of state. Removed tables still have
    * records.
    */
  def note(operatorRoot: Path, hadoopConf: Configuration, version: Long, keys: RecordKeys): Unit = {
    val previous = read(operatorRoot, hadoopConf)
    val now = keys.copy(tables = (previous.toList.flatMap(_.tables) ++ keys.tables).distinct.sorted)
    if (!previous.contains(now)) file.writeFrom(version, operatorRoot, hadoopConf, now)
  }

  /** Writes the information of a savepoint's state. */
  def write(operatorRoot: Path, hadoopConf: Configuration, keys: RecordKeys): Unit =
    file.write(operatorRoot, hadoopConf, keys)
}
