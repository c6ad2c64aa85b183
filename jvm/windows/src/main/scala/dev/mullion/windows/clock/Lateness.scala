package dev.mullion.windows.clock

import dev.mullion.windows.spec.Duration

/** The histogram of late rows. The lateness of a row is the time by which the clock had passed the close of its last
  * pane.
  *
  * {{{
  *   bucket      0     1      2       3        4        5       6
  *   less than   1 s   10 s   1 min   10 min   1 hour   1 day   no bound
  * }}}
  *
  * With a watermark delay that is longer by the bound of a bucket, the rows of this bucket and of those before it would
  * not have been late.
  */
object Lateness {
  private val second = 1000000L

  /** The bounds of all buckets but the last, exclusive, in microseconds. */
  val Bounds: IndexedSeq[Long] = Vector(1L, 10L, 60L, 600L, 3600L, 86400L).map(_ * second)

  private val bounds = Bounds.toArray

  /** The number of buckets. */
  val Buckets: Int = bounds.length + 1

  /** The buckets as names of metrics, in order. */
  val Names: IndexedSeq[String] =
    Vector("Under1s", "Under10s", "Under1min", "Under10min", "Under1h", "Under1d", "From1d")

  /** The buckets as text, in order. */
  val Labels: IndexedSeq[String] =
    Bounds.map(bound => s"less than ${Duration.describe(bound)}") :+ s"${Duration.describe(bounds.last)} or more"

  /** The bucket of a lateness in microseconds. */
  def bucket(lateness: Long): Int = {
    var i = 0
    while (i < bounds.length && lateness >= bounds(i)) i += 1
    i
  }

  /** The smallest bound by which a longer delay would have kept 99.9 % of the rows: 0 if the present delay did, none if
    * no bound suffices.
    *
    * @param late
    *   the late rows of each bucket
    * @param rows
    *   the number of all rows
    */
  def delayToKeep(late: Seq[Long], rows: Long): Option[Long] =
    (0L +: Bounds).zipWithIndex.collectFirst {
      case (bound, i) if BigInt(late.drop(i).sum) * 1000 <= rows => bound
    }
}
