package dev.mullion.windows.rules

/** Why a pane fires. In the life of a pane they come in this order: any number of `early`, `on_time` once at most, any
  * number of `update`, and `close`, once and last.
  */
sealed abstract class FiringKind(val name: String)

object FiringKind {

  /** The pane is open, and its window may still go on. */
  case object Early extends FiringKind("early")

  /** The clock has come to the end of the window. */
  case object OnTime extends FiringKind("on_time")

  /** Rows came after `on_time`, within the allowed lateness. */
  case object Update extends FiringKind("update")

  /** The pane is complete, and gone. */
  case object Close extends FiringKind("close")
}
