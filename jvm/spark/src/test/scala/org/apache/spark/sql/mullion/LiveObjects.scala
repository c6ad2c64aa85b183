package org.apache.spark.sql.mullion

import java.lang.management.ManagementFactory
import javax.management.ObjectName

import scala.annotation.tailrec

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

  /** The classes of which each of several counts finds at least `more` objects more than before, with both numbers. An
    * object that is kept is in every count; what state's maintenance holds while it lists files is not.
    */
  def grown(before: Map[String, Long], more: Int): Seq[String] = {
    @tailrec
    def inEach(suspects: Map[String, Long], counts: Int): Map[String, Long] =
      if (suspects.isEmpty || counts == 0) suspects
      else inEach(grownNow(before, more).filter { case (name, _) => suspects.contains(name) }, counts - 1)
    inEach(grownNow(before, more), counts = 4).toSeq.map { case (name, count) =>
      s"$name: ${before.getOrElse(name, 0L)}, then $count"
    }
  }

  private def grownNow(before: Map[String, Long], more: Int): Map[String, Long] =
    counts().filter { case (name, count) => count - before.getOrElse(name, 0L) >= more }

  private def isOurs(name: String) =
    name.startsWith("dev.mullion.") || name.startsWith("org.apache.spark.sql.mullion.")
}
