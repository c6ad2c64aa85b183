package org.apache.spark.sql.mullion

import java.lang.management.ManagementFactory
import javax.management.ObjectName

/** Counts the objects of Mullion's classes that can be reached on the heap. */
object LiveObjects {

  /** The number of objects of each class. Collects garbage. */
  def counts(): Map[String, Long] = {
    val server = ManagementFactory.getPlatformMBeanServer
    val diagnostics = new ObjectName("com.sun.management:type=DiagnosticCommand")
    def histogram() = server
      .invoke(
        diagnostics,
        "gcClassHistogram",
        Array[AnyRef](Array.empty[String]),
        Array(classOf[Array[String]].getName)
      )
      .toString
    // The first collection only queues weakly referenced objects.
    histogram()
    histogram().linesIterator
      .map(_.trim.split("\\s+"))
      .collect { case Array(_, count, _, name, _*) if isOurs(name) => name -> count.toLong }
      .toMap
  }

  /** The classes of which there are at least `more` objects more than before, with both numbers. */
  def grown(before: Map[String, Long], more: Int): Seq[String] = counts().toSeq.collect {
    case (name, count) if count - before.getOrElse(name, 0L) >= more =>
      s"$name: ${before.getOrElse(name, 0L)}, then $count"
  }

  private def isOurs(name: String) =
    name.startsWith("dev.mullion.") || name.startsWith("org.apache.spark.sql.mullion.")
}
