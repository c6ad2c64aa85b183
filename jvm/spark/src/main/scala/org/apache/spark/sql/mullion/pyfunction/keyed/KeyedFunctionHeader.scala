package org.apache.spark.sql.mullion.pyfunction.keyed

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s._

import org.apache.spark.sql.mullion.shim.SparkVersionShim
import org.apache.spark.sql.mullion.state.header.HeaderFile

/** The meaning of functions' state, as far as it is known outside of them, written next to it once. The contents of
  * records are defined by the functions.
  *
  * @param format
  *   the layout of the records
  * @param shards
  *   the distribution keys as SQL: with others, a shard would not find its records
  */
final case class KeyedFunctionHeader(format: Int, shards: List[String]) {

  private def identity: Seq[(String, String)] = Seq(
    "state format" -> format.toString,
    "shard" -> shards.mkString(", ")
  )

  def differences(other: KeyedFunctionHeader): Seq[String] = HeaderFile.differences(identity, other.identity)
}

object KeyedFunctionHeader {

  /** Raised when the layout of the records changes. */
  val currentFormat = 2

  private implicit val formats: Formats = DefaultFormats

  private val file = new HeaderFile[KeyedFunctionHeader]("function.json", of)

  private def of(json: JValue): KeyedFunctionHeader = {
    val header = json.extract[KeyedFunctionHeader]
    header.differences(header)
    header
  }

  /** Compares the functions with their state, before anything is written. In a new checkpoint, writes the meaning of
    * the state.
    */
  def check(program: KeyedFunctionProgram, info: SparkVersionShim.StateInfo, hadoopConf: Configuration): Unit =
    file.check(info, hadoopConf, program.header, "other functions", isWritten = info.storeVersion > 0)(_.differences(_))

  def read(operatorRoot: Path, hadoopConf: Configuration): Option[KeyedFunctionHeader] =
    file.read(operatorRoot, hadoopConf)

  /** Writes the meaning of a savepoint's state. */
  def write(operatorRoot: Path, hadoopConf: Configuration, header: KeyedFunctionHeader): Unit =
    file.write(operatorRoot, hadoopConf, header)
}
