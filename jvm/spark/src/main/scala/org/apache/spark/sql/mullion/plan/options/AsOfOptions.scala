package org.apache.spark.sql.mullion.plan.options

import org.json4s._

import dev.mullion.MullionException
import dev.mullion.windows.rules.{AsOfDirection, AsOfRules}
import dev.mullion.windows.spec.{Duration, Setting}

/** The options of an as-of join.
  *
  * @param by
  *   the names of the keys, which both sides have
  * @param tolerance
  *   the longest distance between rows that match, in microseconds; none for any
  * @param suffix
  *   for the names of right columns that the left side has too
  */
final case class AsOfOptions(
    by: Seq[String],
    leftTime: String,
    rightTime: String,
    tolerance: Option[Long] = None,
    direction: AsOfDirection = AsOfDirection.Backward,
    allowExact: Boolean = true,
    suffix: String = AsOfOptions.Suffix
) {

  /** The rules, once the options are valid. */
  def rules: AsOfRules = {
    tolerance.filter(_ < 0).foreach { within =>
      throw MullionException.invalid(
        s"${Setting.text("tolerance", Duration.describe(within))} is negative. Give a length of time, or leave it out."
      )
    }
    if (direction != AsOfDirection.Backward && tolerance.isEmpty)
      throw MullionException.invalid(
        s"${Setting.text("direction", direction.name)} needs ${Setting.named("tolerance")}: without one, a row would wait " +
          s"for a later match without end. Write, for instance, ${Setting.text("tolerance", "1 minute")}."
      )
    if (!allowExact && tolerance.contains(0L))
      throw MullionException.invalid(
        s"${Setting.text("tolerance", "0 seconds")} matches equal times alone, which ${Setting.NotExact} excludes. " +
          "Give a longer tolerance, or allow exact matches."
      )
    AsOfRules(direction, tolerance, allowExact)
  }
}

object AsOfOptions {
  val Suffix = "_right"

  def direction(name: String): AsOfDirection = AsOfDirection.all.find(_.name == name).getOrElse {
    throw MullionException.invalid(
      s"${Setting.text("direction", name)} is none of ${AsOfDirection.all.map(_.name).mkString("'", "', '", "'")}. Give one of these."
    )
  }

  /** {{{
    *   {"by": ["k"], "left_time": "ts", "right_time": "at", "tolerance": us or null,
    *    "direction": "backward", "allow_exact": true, "suffix": "_right"}
    * }}}
    */
  def read(request: JValue): AsOfOptions =
    CallDescription.reading {
      implicit val formats: Formats = DefaultFormats
      AsOfOptions(
        (request \ "by").extract[List[String]],
        (request \ "left_time").extract[String],
        (request \ "right_time").extract[String],
        (request \ "tolerance").extractOpt[Long],
        direction((request \ "direction").extract[String]),
        (request \ "allow_exact").extract[Boolean],
        (request \ "suffix").extract[String]
      )
    }
}
