package dev.mullion

import java.time.{Duration => JavaDuration}

import scala.concurrent.duration.FiniteDuration
import scala.language.implicitConversions
import scala.util.Try

import org.apache.spark.sql.catalyst.util.IntervalUtils
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.windows.spec.Duration

/** A length of time, exact to the microsecond. Texts such as `"90 seconds"` and durations of Scala and Java convert to
  * it implicitly.
  */
final case class Span private (micros: Long) {
  override def toString: String = s""""${Duration.describe(micros)}""""
}

object Span {
  val zero: Span = Span(0)

  /** @throws MullionException
    *   if the text is not an interval, or has months, whose lengths differ
    */
  implicit def ofText(text: String): Span = {
    val interval = Try(IntervalUtils.stringToInterval(UTF8String.fromString(text))).toOption.filter(_.months == 0)
    val micros = interval.flatMap(found => Try(Math.addExact(found.days * MicrosOfDay, found.microseconds)).toOption)
    Span(micros.getOrElse {
      throw MullionException.invalid(
        s"'$text' is not a length of time. Write, for instance, \"1 hour 30 minutes\" or 90.seconds; months and years " +
          "differ in length, and Tumbling.months takes them."
      )
    })
  }

  implicit def ofScala(duration: FiniteDuration): Span = Span(nanos(duration.toNanos, duration))

  implicit def ofJava(duration: JavaDuration): Span =
    Span(nanos(Try(duration.toNanos).getOrElse(tooLong(duration)), duration))

  private def nanos(nanos: Long, of: Any): Long =
    if (nanos % 1000 == 0) nanos / 1000
    else throw MullionException.invalid(s"$of is not whole microseconds, which times in Spark are.")

  private def tooLong(of: Any): Nothing =
    throw MullionException.invalid(s"$of is longer than 292 years. Write it as a text, such as \"200000 days\".")

  private val MicrosOfDay = 86400L * 1000000L
}
