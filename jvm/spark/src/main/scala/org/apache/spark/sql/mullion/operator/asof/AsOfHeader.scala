package org.apache.spark.sql.mullion.operator.asof

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s._

import org.apache.spark.sql.mullion.shim.SparkVersionShim
import org.apache.spark.sql.mullion.state.header.HeaderFile
import org.apache.spark.sql.types.{DataType, StructType}

/** The meaning of an as-of join's state, written next to it once.
  *
  * @param format
  *   the layout of the records
  * @param keys
  *   the types of the keys
  * @param left
  *   the names and types of the left side's columns
  */
final case class AsOfHeader(
    format: Int,
    direction: String,
    tolerance: Option[Long],
    allowExact: Boolean,
    keys: List[String],
    left: List[String],
    right: List[String]
) {
  private def identity: Seq[(String, String)] = Seq(
    "state format" -> format.toString,
    "direction" -> direction,
    "tolerance in microseconds" -> tolerance.fold("none")(_.toString),
    "allow_exact" -> allowExact.toString,
    "types of the keys" -> keys.mkString(", "),
    "left side" -> left.mkString(", "),
    "right side" -> right.mkString(", ")
  )

  def differences(other: AsOfHeader): Seq[String] = HeaderFile.differences(identity, other.identity)
}

object AsOfHeader {

  /** Raised when the layout of the records changes. */
  val currentFormat = 1

  private implicit val formats: Formats = DefaultFormats

  private val file = new HeaderFile[AsOfHeader]("asof.json", of)

  private def of(json: JValue): AsOfHeader = {
    val header = json.extract[AsOfHeader]
    header.differences(header)
    header
  }

  /** The columns of a side as text. */
  private[asof] def columns(side: DataType): List[String] = side match {
    case row: StructType => row.asNullable.fields.map(f => s"${f.name} ${f.dataType.sql}").toList
    case other           => throw new IllegalStateException(s"$other is not a row")
  }

  /** Compares the join with its state, before anything is written. In a new checkpoint, writes the meaning of the
    * state.
    */
  def check(program: AsOfProgram, info: SparkVersionShim.StateInfo, hadoopConf: Configuration): Unit =
    file.check(info, hadoopConf, program.header, "another as-of join", isWritten = info.storeVersion > 0)(
      _.differences(_)
    )

  def read(operatorRoot: Path, hadoopConf: Configuration): Option[AsOfHeader] = file.read(operatorRoot, hadoopConf)
}
