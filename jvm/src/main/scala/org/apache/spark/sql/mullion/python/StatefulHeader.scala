package org.apache.spark.sql.mullion.python

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s._

import org.apache.spark.sql.mullion.shim.SparkLineShim
import org.apache.spark.sql.mullion.state.header.HeaderFile

/** What functions' state means, as far as it is known outside of them, written beside it once. What is in a record is
  * the functions' own.
  *
  * @param format
  *   the layout of the records
  * @param shards
  *   what rows are distributed by, as SQL: by something else, a shard would not find its records
  */
final case class StatefulHeader(format: Int, shards: List[String]) {

  private def identity: Seq[(String, String)] = Seq(
    "state format" -> format.toString,
    "shard" -> shards.mkString(", ")
  )

  def differences(other: StatefulHeader): Seq[String] = identity.zip(other.identity).collect {
    case ((name, was), (_, is)) if was != is => s"$name was [$was] and is now [$is]"
  }
}

object StatefulHeader {

  /** Raised when the layout of the records changes. */
  val currentFormat = 2

  private implicit val formats: Formats = DefaultFormats

  private val file = new HeaderFile[StatefulHeader]("function.json", of)

  private def of(json: JValue): StatefulHeader = {
    val header = json.extract[StatefulHeader]
    header.differences(header)
    header
  }

  /** Compares the functions with the state that they are about to use, before anything is written; in a new checkpoint,
    * writes what it will mean.
    */
  def check(program: StatefulProgram, info: SparkLineShim.StateInfo, hadoopConf: Configuration): Unit =
    file.check(info, hadoopConf, program.header, "other functions", isWritten = info.storeVersion > 0)(_.differences(_))

  def read(operatorRoot: Path, hadoopConf: Configuration): Option[StatefulHeader] = file.read(operatorRoot, hadoopConf)

  /** Writes what the state of a savepoint means. */
  def write(operatorRoot: Path, hadoopConf: Configuration, header: StatefulHeader): Unit =
    file.write(operatorRoot, hadoopConf, header)
}
