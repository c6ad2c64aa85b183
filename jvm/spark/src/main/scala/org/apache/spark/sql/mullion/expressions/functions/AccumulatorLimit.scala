package org.apache.spark.sql.mullion.expressions.functions

import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.internal.SQLConf

import dev.mullion.MullionException

/** The size limit of a pane in state. A result that grows with each row, such as a `collect_list`, is in a task's
  * memory as a whole when it is updated and emitted: without a limit the task ends in an OutOfMemoryError, which names
  * no pane.
  */
final case class AccumulatorLimit(bytes: Long) {

  def isLess(size: Long): Boolean = bytes < size

  def check(size: Long, pane: => String, of: => String): Unit = if (isLess(size)) throw tooLarge(size, pane, of)

  /** @param pane
    *   its name in the error
    * @param of
    *   its content
    * @param isInRecords
    *   whether most of it is in records that are read one by one
    */
  def tooLarge(size: Long, pane: String, of: String, isInRecords: Boolean = false): MullionException = {
    val (why, others, resource) =
      if (isInRecords)
        (
          "its state has a record for each distinct value",
          "approx_count_distinct instead of exact counts",
          "the disk for it"
        )
      else ("a task holds them in memory", "aggregates that do not grow with their rows", "the memory")
    MullionException.unsupported(
      s"$pane has grown to $size bytes of $of, and ${AccumulatorLimit.Setting} allows it $bytes: $why. Use shorter windows " +
        s"or more keys, or $others; or, if executors have $resource, raise the limit, " +
        s"as in spark.conf.set('${AccumulatorLimit.Setting}', '${size / (1L << 20) * 2 + 1}m')."
    )
  }
}

object AccumulatorLimit {
  val Setting = "spark.sql.streaming.stateStore.mullion.maxAccumulatorBytes"

  private val Default = "128m"

  def of(conf: SQLConf): AccumulatorLimit = {
    val setting = conf.getConfString(Setting, Default)
    val bytes =
      try Some(JavaUtils.byteStringAsBytes(setting.trim)).filter(_ > 0)
      catch { case _: NumberFormatException => None }
    AccumulatorLimit(
      bytes.getOrElse(
        throw MullionException.invalid(
          s"$Setting=$setting is not a number of bytes: set the most that a pane may hold in state, 1 or more, such as '512m' (it is " +
            s"$Default by default)."
        )
      )
    )
  }
}
