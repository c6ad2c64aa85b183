package dev.mullion.windows.rules

import dev.mullion.windows.WindowException
import dev.mullion.windows.spec.Setting

/** The treatment of late rows: rows whose panes have all closed before their batch. */
sealed abstract class LatePolicy(val name: String) {

  /** True if late rows open fresh panes. */
  final def reopens: Boolean = this == LatePolicy.Reopen || this == LatePolicy.ReopenEach
}

object LatePolicy {

  /** It is counted. */
  case object Drop extends LatePolicy("drop")

  /** It is counted and emitted unchanged, as a row of the result with `firing = "late"`. */
  case object Emit extends LatePolicy("emit")

  /** It opens fresh panes, which on the event clock are due at once and close in the same batch. */
  case object Reopen extends LatePolicy("reopen")

  /** Like [[Reopen]], per pane: a row that is late for some of its panes opens fresh ones for these, and enters the
    * others.
    */
  case object ReopenEach extends LatePolicy("reopen each")

  val all: Seq[LatePolicy] = Seq(Drop, Emit, Reopen, ReopenEach)

  def named(name: String): LatePolicy = all
    .find(_.name == name)
    .getOrElse(
      throw WindowException.invalid(
        s"${Setting.text("late", name)} is not one of ${all.map(p => s"'${p.name}'").mkString(", ")}."
      )
    )
}
