package dev.mullion

import org.apache.spark.SparkThrowable

/** An error that Mullion reports: its message names the value, the cause and the fix.
  *
  * Where it is printed, as Spark prints whatever ends a query, it is that message: where in Mullion it was raised says
  * nothing to who has to mend the query, and is kept beside.
  *
  * @param condition
  *   what kind of error it is, the same word in Scala and Python
  */
final class MullionException(val condition: String, message: String, cause: Option[Throwable] = None)
    extends RuntimeException(message, cause.orNull, true, false)
    with SparkThrowable {

  /** The same for Spark, which tells clients of Spark Connect and listeners of queries an error by it. */
  override def getCondition: String = s"MULLION_$condition"

  private val raisedAt = new Throwable().getStackTrace.dropWhile(_.getClassName.startsWith(getClass.getName))

  /** Where it was raised, as a stack trace is printed. */
  def trace: String = (toString +: raisedAt.map(frame => s"\tat $frame")).mkString("\n")
}

object MullionException {

  /** A parameter that cannot be right. */
  def invalid(message: String): MullionException = new MullionException("INVALID_ARGUMENT", message)

  /** A column that the input has not. */
  def unknownColumn(message: String): MullionException = new MullionException("UNKNOWN_COLUMN", message)

  /** A right request that Mullion, or Spark, cannot serve. */
  def unsupported(message: String): MullionException = new MullionException("UNSUPPORTED", message)

  /** A JAR, a Python package and a Spark that do not belong together. */
  def versionMismatch(message: String): MullionException = new MullionException("VERSION_MISMATCH", message)

  /** State that another query wrote. */
  def incompatibleState(message: String): MullionException = new MullionException("INCOMPATIBLE_STATE", message)

  /** Files of a checkpoint that are cut short, or gone. */
  def damagedState(message: String): MullionException = new MullionException("DAMAGED_STATE", message)

  /** State that is gone. */
  def stateLost(message: String, cause: Option[Throwable] = None): MullionException =
    new MullionException("STATE_LOST", message, cause)

  /** A function of the user's that failed, or gave what it may not. */
  def functionFailed(message: String): MullionException = new MullionException("FUNCTION_FAILED", message)
}
