package dev.mullion.windows.spec

import dev.mullion.windows.WindowException

/** The trigger that closes a global window. */
sealed trait GlobalTrigger {
  def describe: String
}

object GlobalTrigger {

  /** After each `rows` rows. */
  final case class Every(rows: Long) extends GlobalTrigger {
    if (rows <= 0)
      throw WindowException.invalid(
        s"The window would close every $rows rows: it must be at least 1. Give a positive number of rows, such as " +
          s"${Setting("Global.every(100)", "Global.every(100)", "every => 100")}."
      )

    override def describe: String = s"closing every $rows rows"
  }

  /** After a row for which a condition is true. */
  case object When extends GlobalTrigger {
    override def describe: String = "closing after a row for which its condition is true"
  }

  /** Before a row with another value than the previous row's. */
  case object Changes extends GlobalTrigger {
    override def describe: String = "closing where its column changes"
  }

  /** At the split points that a function of the buffered rows returns. It is called once per batch.
    *
    * @param function
    *   its name, which identifies it
    */
  final case class Split(function: String) extends GlobalTrigger {
    override def describe: String = s"split by the function $function"
  }
}
