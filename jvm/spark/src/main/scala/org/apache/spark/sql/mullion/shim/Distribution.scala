package org.apache.spark.sql.mullion.shim

import scala.util.matching.Regex

import org.apache.spark.{SPARK_VERSION, SparkEnv}
import org.apache.spark.sql.SparkSession

import dev.mullion.MullionException

/** A vendor's build of Spark. Its version may equal one of Apache's, but its internal APIs differ and may change
  * without a new version.
  *
  * @param photon
  *   whether it runs plans on Photon, Databricks' engine outside of the JVM
  */
final case class Distribution(name: String, photon: Boolean)

/** Rejects such a Spark before a query starts if it lacks an API that this JAR calls. Apache's builds are not checked,
  * because the JAR was compiled against them.
  */
object Distribution {

  /** Set to `false` to skip all checks, including that for a late JAR. */
  val Setting = "spark.mullion.checkRuntime"

  private val Published: Regex = """\d+\.\d+\.\d+""".r
  private val Tags = "spark.databricks.clusterUsageTags"

  private lazy val missing: Option[Seq[String]] = SparkLinks.missing()

  def check(spark: SparkSession, line: String): Unit = {
    refusalOf(spark.version, line, spark.conf.getOption(_)).foreach(throw _)
    if (!isOff(spark.conf.getOption(_))) LateJar.check()
  }

  /** The same before a session exists, while its extensions are created: the reason why Mullion cannot run, if any. */
  def refusalAtStart(line: String): Option[MullionException] =
    if (SPARK_VERSION.split("\\.").take(2).mkString(".") != line)
      Some(
        MullionException.versionMismatch(
          s"The Mullion JAR on Spark's class path is built for Spark $line, and this is Spark $SPARK_VERSION. Take the JAR for " +
            "this Spark, if this version of Mullion has one."
        )
      )
    else refusalOf(SPARK_VERSION, line, name => Option(SparkEnv.get).flatMap(_.conf.getOption(name)))

  private def refusalOf(version: String, line: String, conf: String => Option[String]): Option[MullionException] = {
    def setting(name: String) = conf(name).filter(_.nonEmpty)
    if (isOff(conf)) None
    else of(version, sys.env.get, setting).flatMap(refusal(_, line, missing))
  }

  private def isOff(conf: String => Option[String]): Boolean = conf(Setting).contains("false")

  /** The APIs that this JAR calls and the running Spark lacks, one per line, for a report. */
  def lacks: String = missing.fold("The file of the JAR cannot be read.")(_.mkString("\n"))

  /** None for Apache's own. */
  def of(
      version: String,
      environment: String => Option[String],
      setting: String => Option[String]
  ): Option[Distribution] =
    environment("DATABRICKS_RUNTIME_VERSION") match {
      case Some(runtime) =>
        val engine = Seq("sparkVersion", "runtimeEngine").flatMap(tag => setting(s"$Tags.$tag"))
        Some(
          Distribution(s"Databricks Runtime $runtime (Spark $version)", engine.exists(_.toLowerCase.contains("photon")))
        )
      case None => Option.unless(Published.matches(version))(Distribution(s"Spark $version", photon = false))
    }

  /** The reason why Mullion cannot run there, if any.
    *
    * @param missing
    *   the missing APIs; `None` if they could not be determined
    */
  def refusal(found: Distribution, line: String, missing: Option[Seq[String]]): Option[MullionException] = {
    def refused(why: String, instead: String) = Some(
      MullionException.unsupported(
        s"$why $instead To try all the same start Spark with $Setting=false: what does not fit fails then in a batch. " +
          "scripts/try-on-databricks.py tries a runtime, and writes a report to send to us " +
          "(docs/platforms/databricks.md)."
      )
    )
    val elsewhere = s"Take a runtime whose notes say Spark $line, or Apache Spark $line."
    if (found.photon)
      refused(
        s"This is ${found.name} with Photon, where Mullion's operator has not been tried.",
        "Take compute without Photon acceleration."
      )
    else
      missing match {
        case None =>
          refused(s"What this JAR calls could not be looked up in ${found.name}: its file cannot be read.", elsewhere)
        case Some(Nil)     => None
        case Some(members) =>
          refused(
            s"This JAR is built for Apache Spark $line, and ${found.name} lacks ${members.length} " +
              s"of the parts that it calls, such as ${members.take(3).mkString(", ")}.",
            elsewhere
          )
      }
  }
}
