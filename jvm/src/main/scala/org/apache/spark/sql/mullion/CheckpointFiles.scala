package org.apache.spark.sql.mullion

import scala.util.control.NonFatal

import dev.mullion.MullionException

/** What Spark says of a checkpoint's files that it cannot read, in our words. */
private[mullion] object CheckpointFiles {

  def reading[T](checkpoint: String)(read: => T): T =
    try read
    catch {
      case e: MullionException => throw e
      case NonFatal(e)         =>
        val says = Option(e.getMessage).fold("")(message => s": ${message.linesIterator.next().stripSuffix(".")}")
        throw MullionException.damagedState(
          s"The checkpoint $checkpoint cannot be read (${e.getClass.getSimpleName}$says). Restore what is missing or damaged " +
            "from a copy of the checkpoint; or start the query with a new checkpointLocation, and a new place for what it " +
            "puts out."
        )
    }
}
