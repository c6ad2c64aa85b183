/** The Spark lines that Mullion builds for: the only place that names their versions.
  *
  * A line is a Spark `major.minor`. What differs between lines lives in `jvm/src/main/spark-<line>`; everything else is
  * shared. Pick one with `sbt -Dspark.line=4.1`; `-Dspark.jars=FOLDER` compiles against the JARs of a PySpark that is
  * installed, for versions that Maven Central does not have.
  */
final case class SparkLine(name: String, spark: String, scala: String, shared: Seq[String] = Nil) {

  /** Folders with what this line has for itself, or with others. */
  def folders: Seq[String] = (shared :+ name).map(part => s"spark-$part")

  /** Spark's own JARs, where they do not come from Maven Central. */
  def jars: Option[String] = sys.props.get("spark.jars")
}

object SparkLine {
  val supported: Seq[SparkLine] = Seq(
    SparkLine("4.0", spark = "4.0.5", scala = "2.13.16", shared = Seq("4.1-down", "4.2-down")),
    SparkLine("4.1", spark = "4.1.3", scala = "2.13.18", shared = Seq("4.1-up", "4.1-down", "4.2-down")),
    SparkLine("4.2", spark = "4.2.0", scala = "2.13.18", shared = Seq("4.1-up", "4.2-up", "4.2-down")),
    SparkLine("4.3", spark = "4.3.0", scala = "2.13.18", shared = Seq("4.1-up", "4.2-up"))
  )

  /** The line that is built and tested unless another is asked for. */
  val default = "4.2"

  val current: SparkLine = {
    val wanted = sys.props.getOrElse("spark.line", default)
    supported
      .find(_.name == wanted)
      .getOrElse(sys.error(s"-Dspark.line=$wanted is not one of ${supported.map(_.name).mkString(", ")}"))
  }
}
