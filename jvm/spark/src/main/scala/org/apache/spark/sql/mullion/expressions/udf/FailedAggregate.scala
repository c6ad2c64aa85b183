package org.apache.spark.sql.mullion.expressions.udf

import scala.util.control.NoStackTrace

import dev.mullion.MullionException

/** The error of a method of a Python aggregate. The worker reports the method and its line, and the code that calls the
  * aggregate adds the pane.
  */
object FailedAggregate {
  private final class WithoutPane(val reason: String) extends RuntimeException(reason) with NoStackTrace

  def apply(reason: String): MullionException =
    new MullionException("FUNCTION_FAILED", messageOf(reason), Some(new WithoutPane(reason)))

  /** The error with the name of the pane, if it is of an aggregate and has none; otherwise the same error.
    *
    * @param pane
    *   as in `The pane [0, 3) of k=a`
    */
  def in(pane: => String, error: MullionException): MullionException = error.getCause match {
    case failed: WithoutPane =>
      MullionException.functionFailed(messageOf(s"In ${pane.head.toLower}${pane.tail}, ${failed.reason}"))
    case _ => error
  }

  /** The message of a failed function, for a batch DataFrame and for a stream. */
  private[udf] def messageOf(reason: String): String =
    s"$reason. Nothing of the batch was kept. Fix the function and run the query again: with a checkpoint it continues " +
      "from there."
}
