package org.apache.spark.sql.mullion.expressions

import org.apache.spark.sql.catalyst.expressions.Attribute

/** The columns that rows are grouped by. */
private[mullion] object KeyColumns {

  /** The key of windows over the whole stream: state is kept by key, so there is always one. */
  val noKey = "mullion_no_key"

  /** The keys that a user named. */
  def named(keys: Seq[Attribute]): Seq[Attribute] = keys.filterNot(_.name == noKey)
}
