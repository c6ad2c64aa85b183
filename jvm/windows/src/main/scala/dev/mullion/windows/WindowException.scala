package dev.mullion.windows

import java.util.ServiceLoader

/** An invalid or unsupported window. The message names the value, the cause and the fix.
  *
  * `dev.mullion.MullionException` extends it with the interface of Spark's errors, which is not on the class path here.
  *
  * @param condition
  *   the kind of error, the same word in Scala and Python
  */
abstract class WindowException(val condition: String, message: String, cause: Throwable)
    extends RuntimeException(message, cause, true, false)

object WindowException {

  /** Creates the exceptions. The JAR for Spark registers its own as a service. */
  trait Factory {
    def create(condition: String, message: String): WindowException
  }

  private final class Plain(condition: String, message: String) extends WindowException(condition, message, null)

  private lazy val factory: Factory = ServiceLoader
    .load(classOf[Factory], classOf[Factory].getClassLoader)
    .findFirst
    .orElse((condition, message) => new Plain(condition, message))

  /** An invalid argument. */
  def invalid(message: String): WindowException = factory.create("INVALID_ARGUMENT", message)

  /** A valid request that is not supported. */
  def unsupported(message: String): WindowException = factory.create("UNSUPPORTED", message)
}
