package org.apache.spark.sql.mullion.pyfunction.agents

import org.apache.spark.sql.mullion.pyfunction.expression.Value
import org.apache.spark.unsafe.types.UTF8String

/** The shard of a key, as in the Python package (`faust/_values/shards.py`): a text is its own shard, an integer's is
  * that of its digits.
  */
private[agents] object Shards {

  /** True if a key is certainly in a shard; for some keys it is unknown. */
  def holds(shard: UTF8String, key: Value): Boolean = key.kind match {
    case Value.Text                                                               => shard == key.text
    case Value.Int                                                                => isNumber(shard, key.long)
    case Value.Float if key.double == Math.rint(key.double) && isLong(key.double) => isNumber(shard, key.double.toLong)
    case Value.Bool => shard == (if (key.isTrue) True else False)
    case _          => false
  }

  private val True = UTF8String.fromString("true")
  private val False = UTF8String.fromString("false")

  private def isLong(value: Double) = value >= -9.223372036854775808e18 && value < 9.223372036854775808e18

  /** True if a text is the digits of a number; compared without allocation. */
  private def isNumber(text: UTF8String, number: Long): Boolean = {
    val first = if (number < 0) 1 else 0
    var at = text.numBytes - 1
    // The negative range is larger by one.
    var rest = if (number < 0) number else -number
    var same = at >= first && (number >= 0 || text.getByte(0) == '-')
    while (same && at > first) {
      same = text.getByte(at) == '0' - rest % 10
      rest /= 10
      at -= 1
    }
    same && rest > -10 && text.getByte(at) == '0' - rest && (rest != 0 || text.numBytes == first + 1)
  }
}
