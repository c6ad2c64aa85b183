package org.apache.spark.sql.mullion.python

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s._
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.mullion.python.flows.FlowPlaces
import org.apache.spark.sql.mullion.python.folds.TablePlaces
import org.apache.spark.sql.mullion.python.state.ShardPlaces
import org.apache.spark.sql.mullion.state.header.HeaderFile

/** How the keys of functions' records say in which partition these lie, noted beside state with each start that knows
  * more of it: with another number of partitions each record goes where the rows of its key go. Functions whose keys
  * say nothing of it have no such note.
  *
  * @param of
  *   whose they are: `keys` of a dataflow, or `tables`
  * @param tables
  *   the names of all tables that there have been
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
    case other               => throw new IllegalArgumentException(s"$other says no places")
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

  /** Notes, as a query starts from a version of state, what its functions say. The records of a table that is gone are
    * still there.
    */
  def note(operatorRoot: Path, hadoopConf: Configuration, version: Long, keys: RecordKeys): Unit = {
    val was = read(operatorRoot, hadoopConf)
    val now = keys.copy(tables = (was.toList.flatMap(_.tables) ++ keys.tables).distinct.sorted)
    if (!was.contains(now)) file.writeFrom(version, operatorRoot, hadoopConf, now)
  }

  /** Writes what a savepoint's state has. */
  def write(operatorRoot: Path, hadoopConf: Configuration, keys: RecordKeys): Unit =
    file.write(operatorRoot, hadoopConf, keys)
}
