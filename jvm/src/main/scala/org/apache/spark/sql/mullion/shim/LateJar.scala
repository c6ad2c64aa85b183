package org.apache.spark.sql.mullion.shim

import java.util.concurrent.atomic.AtomicBoolean

import scala.jdk.CollectionConverters._
import scala.util.Try

import dev.mullion.MullionException

/** Refuses a JAR that an application was given after it had started, as `ADD JAR` and `addJar` give it.
  *
  * The thread that adds such a JAR sees it, and so do tasks. Spark's own threads keep the class loader that they began
  * with, and these read what tasks send back: a batch DataFrame may do, and a stream fails in its first batch by a
  * class that is not found.
  */
private[mullion] object LateJar {
  // A thread that begins with the SparkContext, and whose class loader those have that read results.
  private val ofSpark = "dag-scheduler-event-loop"

  private val seen = new AtomicBoolean(false)

  def check(): Unit = if (!seen.get) {
    if (!loaders.forall(sees(_, getClass)))
      throw MullionException.unsupported(
        "Mullion's JAR was added to this application after it had started, by ADD JAR or addJar: Spark's own threads do not " +
          "see it, and a stream would fail in its first batch. Give it when Spark starts: with mullion.configure(...), --jars, " +
          s"--packages or spark.jars, or as a library of the cluster. To try all the same set ${Distribution.Setting}=false."
      )
    seen.set(true)
  }

  private def loaders: Seq[ClassLoader] =
    Thread.getAllStackTraces.keySet.asScala.toSeq
      .filter(_.getName == ofSpark)
      .flatMap(t => Option(t.getContextClassLoader))

  private[shim] def sees(loader: ClassLoader, ours: Class[_]): Boolean =
    Try(Class.forName(ours.getName, false, loader)).toOption.contains(ours)
}
