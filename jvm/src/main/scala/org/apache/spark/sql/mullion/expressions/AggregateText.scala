package org.apache.spark.sql.mullion.expressions

import org.apache.spark.sql.types.StructType

/** An aggregation as text over named columns: to tell one query's state from another's, and to build its aggregates
  * again where there is only a checkpoint.
  *
  * @param input
  *   the columns that are read
  * @param keys
  *   each key as SQL, with its name
  * @param aggregates
  *   each output column as SQL, with its name
  * @param gap
  *   the gap of sessions as SQL, if each row brings its own
  * @param trigger
  *   what tells when a global window closes, as SQL
  * @param dedupe
  *   by what rows count once in a pane, as SQL; nothing where all count
  * @param functions
  *   the aggregate functions as SQL, in their order
  * @param time
  *   the event time as SQL
  * @param typed
  *   for each function the columns whose types its state depends on, where its buffers do not show that
  * @param typedByWindow
  *   the same of the window itself
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
    typedByWindow: Seq[String] = Nil
) {

  /** Which rows count, in words, where not all do. */
  def once: Option[String] =
    Option.when(dedupe.nonEmpty)(s"rows of a pane with the same ${dedupe.mkString(", ")} count once")
}
