package dev.mullion.windows.rules

/** The rows without a match in their window that a windowed join emits. */
sealed abstract class JoinKind(val name: String) extends Product with Serializable

object JoinKind {

  /** None: only pairs. */
  case object Inner extends JoinKind("inner")

  /** Those of the left side, with nulls on the right. */
  case object Left extends JoinKind("left")

  /** Those of both sides. */
  case object Full extends JoinKind("full")

  val all: Seq[JoinKind] = Seq(Inner, Left, Full)
}
