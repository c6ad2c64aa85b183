package dev.mullion.windows.spec

/** Lengths of time in microseconds, as readable text. */
object Duration {
  private val units = Seq(
    (86400L * 1000000L, "day"),
    (3600L * 1000000L, "hour"),
    (60L * 1000000L, "minute"),
    (1000000L, "second"),
    (1000L, "millisecond"),
    (1L, "microsecond")
  )

  /** `90000000` as `1 minute 30 seconds`. */
  def describe(us: Long): String =
    if (us == 0) "0 seconds"
    else if (us == Long.MinValue) s"$us microseconds"
    else {
      val sign = if (us < 0) "-" else ""
      val (_, words) = units.foldLeft((Math.abs(us), Vector.empty[String])) { case ((left, words), (unit, name)) =>
        val n = left / unit
        if (n == 0) (left, words) else (left % unit, words :+ s"$sign$n $name${if (n == 1) "" else "s"}")
      }
      words.mkString(" ")
    }
}
