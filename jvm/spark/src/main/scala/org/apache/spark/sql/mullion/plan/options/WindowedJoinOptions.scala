package org.apache.spark.sql.mullion.plan.options

import org.json4s._

import dev.mullion.MullionException
import dev.mullion.windows.rules.JoinKind
import dev.mullion.windows.spec.Setting

/** The options of a windowed join that no window has.
  *
  * @param by
  *   the names of the keys, which both sides have
  * @param time
  *   the name of the event time on the left
  * @param rightTime
  *   its name on the right
  * @param suffix
  *   for the names of right columns that the left side has too
  */
final case class WindowedJoinOptions(
    by: Seq[String],
    time: String,
    rightTime: String,
    how: JoinKind = JoinKind.Inner,
    suffix: String = AsOfOptions.Suffix
)

object WindowedJoinOptions {

  def how(name: String): JoinKind = JoinKind.all.find(_.name == name).getOrElse {
    val fix =
      if (name == "right") s"Swap the two sides, and write ${Setting.text("how", "left")}."
      else "Write one of these."
    throw MullionException.invalid(
      s"${Setting.text("how", name)} is not one of ${JoinKind.all.map(_.name).mkString("'", "', '", "'")}. $fix"
    )
  }

  /** {{{
    *   {"by": ["k"], "time": "ts", "right_time": "at", "how": "inner", "suffix": "_right"}
    * }}}
    */
  def read(request: JValue): WindowedJoinOptions =
    CallDescription.reading {
      implicit val formats: Formats = DefaultFormats
      WindowedJoinOptions(
        (request \ "by").extract[List[String]],
        (request \ "time").extract[String],
        (request \ "right_time").extract[String],
        how((request \ "how").extract[String]),
        (request \ "suffix").extract[String]
      )
    }
}
