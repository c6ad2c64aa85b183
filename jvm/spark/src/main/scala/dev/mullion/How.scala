package dev.mullion

import dev.mullion.windows.rules.JoinKind

/** The rows without a match that `windowedJoin` emits: none, those of the left side, or those of both sides. */
object How {
  val Inner: JoinKind = JoinKind.Inner
  val Left: JoinKind = JoinKind.Left
  val Full: JoinKind = JoinKind.Full
}
