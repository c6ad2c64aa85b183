package dev.mullion.windows.key

import dev.mullion.MullionSuite

class ReopenedPanesSuite extends MullionSuite {
  private def panes(joins: Boolean)(rows: ((Long, Long), String)*) = {
    val reopened = new ReopenedPanes[String](joins)
    rows.foreach { case ((start, end), row) => reopened.add(ArrivalPane(start, start, end), row) }
    reopened.panes.map { case (pane, of) => (pane.start, pane.end, of.mkString) }
  }

  test("late rows of one window are in one pane, in order of arrival") {
    assertEquals(
      panes(joins = false)((10L, 20L) -> "a", (0L, 10L) -> "b", (10L, 20L) -> "c", (5L, 15L) -> "d"),
      Seq((0L, 10L, "b"), (5L, 15L, "d"), (10L, 20L, "ac"))
    )
  }

  test("windows that would start before the first time have one pane each") {
    val (one, other) = ((Long.MinValue, 5L), (Long.MinValue, 10L))
    assertEquals(
      panes(joins = false)(one -> "a", other -> "a", one -> "b", other -> "b"),
      Seq((Long.MinValue, 5L, "ab"), (Long.MinValue, 10L, "ab"))
    )
  }

  test("late sessions that touch are one, whatever their order of arrival") {
    assertEquals(
      panes(joins = true)((20L, 30L) -> "a", (0L, 10L) -> "b", (10L, 20L) -> "c", (31L, 41L) -> "d", (2L, 5L) -> "e"),
      Seq((0L, 30L, "abce"), (31L, 41L, "d"))
    )
    assertEquals(panes(joins = true)(), Nil)
  }
}
