package org.apache.spark.sql.mullion.state.header

import org.apache.spark.sql.mullion.expressions.functions.TypeDependence
import org.apache.spark.sql.types.{DataType, StructType}

/** The columns of a query whose types differ from those of its state.
  *
  * {{{
  *   the state has      v INT       percentile(v, 0.5D, 1) DOUBLE    max(v) INT
  *   the query has      v BIGINT    percentile(v, 0.5D, 1) DOUBLE    max(v) BIGINT
  *                                  hidden: equal texts              shown by the text
  * }}}
  */
private[header] final class RetypedColumns(was: StateHeader, now: StateHeader) {
  private val before = types(was)
  private val after = types(now)
  private val names = before.keySet
    .intersect(after.keySet)
    .filterNot(name => DataType.equalsIgnoreNullability(before(name), after(name)))
    .toSeq
    .sorted

  /** The changes on which state depends, although the texts of aggregates and the types of buffers are equal. */
  def hidden: Seq[String] =
    for (name <- names; of = dependent(name) if of.nonEmpty)
      yield s"${change(name)}, and what state holds of [${of.mkString(", ")}] depends on it ${fix(name)}"

  /** All changes, for aggregates that differ. */
  def all: Seq[String] = names.map(name => s"${change(name)} ${fix(name)}")

  private def change(name: String) =
    s"the column $name was of type ${before(name).sql} and is now of type ${after(name).sql}"

  private def fix(name: String) = s"(cast the column to ${before(name).sql} before the window)"

  /** The parts of the state that depend on the type of a column. */
  private def dependent(name: String): Seq[String] = {
    val texts = was.functions.fold(Set(StateHeader.Itself))(_.map(_.text).toSet + StateHeader.Itself)
    if (now.functions.isDefined)
      now.typed.toSeq.flatten.collect {
        case (text, of) if texts(text) && TypeDependence.isAffected(of, name, before(name), after(name)) => text
      }
    else now.aggregates ++ now.dedupe.map(ids => s"rows with the same ${ids.mkString(", ")}")
  }

  private def types(of: StateHeader): Map[String, DataType] =
    DataType.fromJson(of.input).asInstanceOf[StructType].map(field => field.name -> field.dataType).toMap
}
