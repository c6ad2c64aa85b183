package org.apache.spark.sql.mullion.operator.asof

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s._

import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.mullion.shim.SparkVersionShim
import org.apache.spark.sql.mullion.state.header.HeaderFile
import org.apache.spark.sql.types.{DataType, IntegerType, StructField, StructType}

import dev.mullion.windows.rules.{AsOfDirection, AsOfRules}

/** The meaning of an as-of join's state, written next to it once.
  *
  * @param format
  *   the layout of the records
  * @param keys
  *   the types of the keys, in SQL
  * @param left
  *   the names and types of the left side's columns, in JSON
  */
final case class AsOfHeader(
    format: Int,
    direction: String,
    tolerance: Option[Long],
    allowExact: Boolean,
    keys: List[String],
    left: String,
    right: String
) {
  private def identity: Seq[(String, String)] = Seq(
    "state format" -> format.toString,
    "direction" -> direction,
    "tolerance in microseconds" -> tolerance.fold("none")(_.toString),
    "allow_exact" -> allowExact.toString,
    "types of the keys" -> keys.mkString(", "),
    "left side" -> AsOfHeader.columns(left),
    "right side" -> AsOfHeader.columns(right)
  )

  def differences(other: AsOfHeader): Seq[String] = HeaderFile.differences(identity, other.identity)

  /** The kinds of record in the state. */
  def state: AsOfState = AsOfState(
    // Without a key the key column is a constant.
    if (keys.isEmpty) Seq(IntegerType) else keys.map(CatalystSqlParser.parseDataType),
    DataType.fromJson(left),
    DataType.fromJson(right),
    AsOfRules(AsOfDirection.all.find(_.name == direction).get, tolerance, allowExact)
  )
}

object AsOfHeader {

  /** Raised when the layout of the records changes. */
  val currentFormat = 1

  private implicit val formats: Formats = DefaultFormats

  private val file = new HeaderFile[AsOfHeader]("asof.json", of)

  private def of(json: JValue): AsOfHeader = {
    val header = json.extract[AsOfHeader]
    header.differences(header)
    header.state
    header
  }

  /** The columns of a side in JSON, without nullability and metadata. */
  private[asof] def json(side: DataType): String = side match {
    case row: StructType => StructType(row.asNullable.map(f => StructField(f.name, f.dataType))).json
    case other           => throw new IllegalStateException(s"$other is not a row")
  }

  /** The columns of a side as text. */
  private def columns(json: String): String = DataType.fromJson(json) match {
    case row: StructType => row.map(f => s"${f.name} ${f.dataType.sql}").mkString(", ")
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

  /** Writes the meaning of a savepoint's state. */
  def write(operatorRoot: Path, hadoopConf: Configuration, header: AsOfHeader): Unit =
    file.write(operatorRoot, hadoopConf, header)
}
