package org.apache.spark.sql.mullion.expressions.udf

import dev.mullion.MullionException

/** A method of a Python aggregate that runs in the JVM, in its errors.
  *
  * @param name
  *   as in `Above.add_row`
  * @param place
  *   its file and line, as in `/home/me/above.py:12`
  */
final case class TranslatedMethod(name: String, place: String) {

  /** @param error
    *   as Python writes it
    */
  def failed(error: String): MullionException =
    MullionException.functionFailed(FailedAggregate.messageOf(s"$name failed: $error, in the method at $place"))
}
