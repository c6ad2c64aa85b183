package org.apache.spark.sql.mullion.request.reject

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.mullion.request.sql.TableFunctions
import org.apache.spark.sql.mullion.shim.{BuildInfo, Distribution}
import org.apache.spark.sql.mullion.sqlfunctions.SqlFunctions

import dev.mullion.MullionException

/** A Spark on which Mullion cannot run. A cluster may have the JAR for some of its users only: sessions start anyway,
  * the log contains the reason once, and calls of Mullion fail.
  */
object Unfit extends Logging {

  /** The reason, determined when the first session of this JVM starts. */
  lazy val reason: Option[MullionException] = {
    val why = guarded(Option(notLookedAt))(Distribution.refusalAtStart(BuildInfo.sparkLine))
    why.foreach(refusal => logWarning(s"Mullion rejects every call in this application. ${refusal.getMessage}"))
    why
  }

  /** Makes a session reject calls of Mullion, as far as this Spark supports that. */
  def refuse(extensions: SparkSessionExtensions, why: MullionException): Unit = guarded(()) {
    extensions.injectHintResolutionRule(_ => new RefuseCalls(why))
    TableFunctions.injectRefusals(extensions, why)
    SqlFunctions.injectRefusals(extensions, why)
  }

  /** Nothing here may prevent a session from starting, whichever API this Spark lacks. */
  private def guarded[A](otherwise: => A)(done: => A): A =
    try done
    catch {
      case error: LinkageError      => failed(error); otherwise
      case error if NonFatal(error) => failed(error); otherwise
    }

  private def failed(error: Throwable): Unit = logWarning("Mullion could not inspect this Spark.", error)

  private def notLookedAt = MullionException.unsupported(
    s"Mullion could not inspect this Spark; the log has the reason. This JAR is built for Apache Spark ${BuildInfo.sparkLine}."
  )
}
