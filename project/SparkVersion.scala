/** The Spark versions that Mullion builds for: the only place that lists them.
  *
  * A version is Spark's `major.minor`. Differences between versions are in `jvm/spark/src/main/spark-<version>`;
  * everything else is shared. Choose one with `sbt -Dspark.line=4.1`. `-Dspark.jars=FOLDER` compiles against the JARs
  * of an installed PySpark, for versions that Maven Central does not have.
  */
final case class SparkVersion(name: String, spark: String, scala: String, shared: Seq[String] = Nil) {

  /** The source folders of this version, or of several. */
  def folders: Seq[String] = (shared :+ name).map(part => s"spark-$part")

  /** Spark's own JARs, if they do not come from Maven Central. */
  def jars: Option[String] = sys.props.get("spark.jars")
}

object SparkVersion {
  val supported: Seq[SparkVersion] = Seq(
    SparkVersion("4.0", spark = "4.0.5", scala = "2.13.16", shared = Seq("4.1-down", "4.2-down")),
    SparkVersion("4.1", spark = "4.1.3", scala = "2.13.18", shared = Seq("4.1-up", "4.1-down", "4.2-down")),
    SparkVersion("4.2", spark = "4.2.0", scala = "2.13.18", shared = Seq("4.1-up", "4.2-up", "4.2-down")),
    SparkVersion("4.3", spark = "4.3.0", scala = "2.13.18", shared = Seq("4.1-up", "4.2-up", "4.3-up"))
  )

  /** The default version for builds and tests. */
  val default = "4.2"

  val current: SparkVersion = {
    val requested = sys.props.getOrElse("spark.line", default)
    supported
      .find(_.name == requested)
      .getOrElse(sys.error(s"-Dspark.line=$requested is not one of ${supported.map(_.name).mkString(", ")}"))
  }
}
