/** The Spark lines that Mullion builds for: the only place that names their versions.
  *
  * A line is a Spark `major.minor`. What differs between lines lives in `jvm/src/main/spark-<line>`; everything else is
  * shared. Pick one with `sbt -Dspark.line=4.2`.
  */
final case class SparkLine(name: String, spark: String, scala: String)

object SparkLine {
  val supported: Seq[SparkLine] = Seq(SparkLine("4.2", spark = "4.2.0", scala = "2.13.18"))

  val current: SparkLine = {
    val wanted = sys.props.getOrElse("spark.line", supported.last.name)
    supported
      .find(_.name == wanted)
      .getOrElse(sys.error(s"-Dspark.line=$wanted is not one of ${supported.map(_.name).mkString(", ")}"))
  }
}
