package org.apache.spark.sql.mullion.shim

import java.util.concurrent.atomic.AtomicBoolean

import scala.jdk.CollectionConverters._
import scala.util.Try

import dev.mullion.MullionException

/** Rejects a JAR that was added after the application had started, by `ADD JAR` or `addJar`.
  *
  * Only the adding thread and tasks have its classes. Spark's own threads keep their class loader, and some of them
  * deserialise task results: a batch query may work, but a stream fails in its first batch with a missing class.
  */
private[mullion] object LateJar {
  // A thread started by the SparkContext, with the class loader of the threads that read results.
  private val ofSpark = "dag-scheduler-event-loop"

  private val isChecked = new AtomicBoolean(false)

  def check(): Unit = if (!isChecked.get) {
    if (!loaders.forall(sees(_, getClass)))
      throw MullionException.unsupported(
        "Mullion's JAR was added to this application after it had started, by ADD JAR or addJar: Spark's own threads do not " +
          "see it, and a stream would fail in its first batch. Give it when Spark starts: with mullion.configure(...), --jars, " +
          s"--packages or spark.jars, or as a library of the cluster. To try all the same set ${Distribution.Setting}=false."
      )
    isChecked.set(true)
  }

  private def loaders: Seq[ClassLoader] =
    Thread.getAllStackTraces.keySet.asScala.toSeq
      .filter(_.getName == ofSpark)
      .flatMap(t => Option(t.getContextClassLoader))

  private[shim] def sees(loader: ClassLoader, ours: Class[_]): Boolean =
    Try(Class.forName(ours.getName, false, loader)).toOption.contains(ours)
}
