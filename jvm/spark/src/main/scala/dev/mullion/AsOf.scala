package dev.mullion

import dev.mullion.windows.rules.AsOfDirection

/** The direction of an as-of join: the match of a row is the last row before it, the first one after it, or the nearer
  * of both.
  */
object AsOf {
  val Backward: AsOfDirection = AsOfDirection.Backward
  val Forward: AsOfDirection = AsOfDirection.Forward
  val Nearest: AsOfDirection = AsOfDirection.Nearest
}
