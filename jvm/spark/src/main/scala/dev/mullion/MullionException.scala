package dev.mullion

import org.apache.spark.SparkThrowable

import dev.mullion.windows.WindowException

/** An error that Mullion reports: its message names the value, the cause and the fix.
  *
  * Printing shows the message only, because frames inside Mullion do not help to fix a query. They are kept in `trace`.
  *
  * @param condition
  *   the kind of the error, the same word in Scala and Python
  */
final class MullionException(condition: String, message: String, cause: Option[Throwable] = None)
    extends WindowException(condition, message, cause.orNull)
    with SparkThrowable {

  /** The condition that Spark passes to clients of Spark Connect and to listeners of queries. */
  override def getCondition: String = s"MULLION_$condition"

  private val raisedAt = new Throwable().getStackTrace.dropWhile { frame =>
    Seq(getClass, classOf[WindowException]).exists(kind => frame.getClassName.startsWith(kind.getName))
  }

  /** The stack trace, in the usual form. */
  def trace: String = (toString +: raisedAt.map(frame => s"\tat $frame")).mkString("\n")
}

object MullionException {

  /** An invalid parameter. */
  def invalid(message: String): MullionException = new MullionException("INVALID_ARGUMENT", message)

  /** A column that the input does not have. */
  def unknownColumn(message: String): MullionException = new MullionException("UNKNOWN_COLUMN", message)

  /** A valid request that Mullion, or Spark, does not support. */
  def unsupported(message: String): MullionException = new MullionException("UNSUPPORTED", message)

  /** A JAR, a Python package and a Spark whose versions do not match. */
  def versionMismatch(message: String): MullionException = new MullionException("VERSION_MISMATCH", message)

  /** State of another query. */
  def incompatibleState(message: String): MullionException = new MullionException("INCOMPATIBLE_STATE", message)

  /** Truncated or missing files of a checkpoint. */
  def damagedState(message: String): MullionException = new MullionException("DAMAGED_STATE", message)

  /** Lost state. */
  def stateLost(message: String, cause: Option[Throwable] = None): MullionException =
    new MullionException("STATE_LOST", message, cause)

  /** A function of the user's that failed, or returned an invalid value. */
  def functionFailed(message: String): MullionException = new MullionException("FUNCTION_FAILED", message)
}

/** Has the rules of windows throw [[MullionException]]s. `META-INF/services` names it. */
private[mullion] final class MullionExceptions extends WindowException.Factory {
  override def create(condition: String, message: String): MullionException = new MullionException(condition, message)
}
