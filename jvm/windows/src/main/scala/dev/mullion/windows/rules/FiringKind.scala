package dev.mullion.windows.rules

/** The kind of a firing. A pane has any number of `early`, at most one `on_time`, any number of `update`, and one final
  * `close`, in this order.
  */
sealed abstract class FiringKind(val name: String)

object FiringKind {

  /** The pane is open, and its window has not ended. */
  case object Early extends FiringKind("early")

  /** The clock has reached the end of the window. */
  case object OnTime extends FiringKind("on_time")

  /** Rows arrived after `on_time`, within the allowed lateness. */
  case object Update extends FiringKind("update")

  /** The pane is complete and removed. */
  case object Close extends FiringKind("close")
}
