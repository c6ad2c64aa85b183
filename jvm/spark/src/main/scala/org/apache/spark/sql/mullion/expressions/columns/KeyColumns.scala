package org.apache.spark.sql.mullion.expressions.columns

import org.apache.spark.sql.catalyst.expressions.Attribute

/** The grouping columns. */
private[mullion] object KeyColumns {

  /** The key of windows over the entire stream, because state always has a key. */
  val noKey = "mullion_no_key"

  /** The user's keys. */
  def named(keys: Seq[Attribute]): Seq[Attribute] = keys.filterNot(_.name == noKey)
}
