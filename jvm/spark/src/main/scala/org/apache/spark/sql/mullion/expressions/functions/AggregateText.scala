package org.apache.spark.sql.mullion.expressions.functions

import org.apache.spark.sql.types.StructType

/** An aggregation as text over named columns: to distinguish the states of queries, and to rebuild the aggregates from
  * a checkpoint alone.
  *
  * @param input
  *   the columns that are read
  * @param keys
  *   each key as SQL, with its name
  * @param aggregates
  *   each output column as SQL, with its name
  * @param gap
  *   the gap of sessions as SQL, if each row has its own
  * @param trigger
  *   the condition that closes a global window, as SQL
  * @param dedupe
  *   the deduplication columns of a pane, as SQL; empty without deduplication
  * @param functions
  *   the aggregate functions as SQL, in order
  * @param time
  *   the event time as SQL
  * @param typed
  *   for each function the columns whose types affect its state without showing in its buffers, see [[TypeDependence]]
  * @param typedByWindow
  *   the same for the window itself
  * @param endsWith
  *   the condition over its contents that also closes a global window, as SQL
  * @param lastValues
  *   the values of the last close that state holds for each key, as SQL with their types
  */
final case class AggregateText(
    input: StructType,
    keys: Seq[String],
    aggregates: Seq[String],
    gap: Option[String],
    trigger: Option[String],
    dedupe: Seq[String] = Nil,
    functions: Seq[String] = Nil,
    time: Option[String] = None,
    typed: Seq[Seq[String]] = Nil,
    typedByWindow: Seq[String] = Nil,
    endsWith: Option[String] = None,
    lastValues: Seq[String] = Nil
) {

  /** The deduplication as text, if any. */
  def once: Option[String] =
    Option.when(dedupe.nonEmpty)(s"rows of a pane with the same ${dedupe.mkString(", ")} count once")
}
