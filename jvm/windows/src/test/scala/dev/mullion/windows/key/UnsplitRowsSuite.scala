package dev.mullion.windows.key

import dev.mullion.MullionSuite

class UnsplitRowsSuite extends MullionSuite {
  private val buffer = UnsplitRows(start = 10L, rows = 16L)

  private def closes(indices: Long*) = buffer.closes(indices.toArray).map(pane => pane.start -> pane.end)

  test("the rows before the first index are a window, and those after the last one stay") {
    assertEquals(closes(2L, 5L), Seq(10L -> 12L, 12L -> 15L))
    assertEquals(buffer.after(Array(2L, 5L)), UnsplitRows(15L, 16L))
    assertEquals(buffer.after(Array(2L, 5L)).open, Some(ArrivalPane(15L, 15L, 16L)))
  }

  test("the length of the buffer as the last index leaves nothing") {
    assertEquals(closes(6L), Seq(10L -> 16L))
    assertEquals(buffer.after(Array(6L)).open, None)
  }

  test("a window that starts at the first row closes none") {
    assertEquals(closes(0L), Nil)
    assertEquals(buffer.after(Array(0L)), buffer)
    assertEquals(closes(0L, 1L), Seq(10L -> 11L))
  }

  test("no indices split nothing") {
    assertEquals(closes(), Nil)
    assertEquals(buffer.after(Array.empty[Long]), buffer)
    assertEquals(UnsplitRows.empty.taken(3L).open, Some(ArrivalPane(0L, 0L, 3L)))
  }

  test("indices that are outside of the buffer or do not ascend are named") {
    def wrong(indices: Long*) = UnsplitRows.wrong(indices.toArray, 5L)

    assertEquals(wrong(0L, 3L, 5L), None)
    assertEquals(wrong(), None)
    assertEquals(wrong(-1L, 2L), Some("gave [-1, 2], in which -1 is negative"))
    assertEquals(wrong(2L, 6L), Some("gave [2, 6], in which 6 is beyond 5, the end of the buffer"))
    assertEquals(wrong(3L, 2L), Some("gave [3, 2], in which 2 does not come after 3"))
    assertEquals(wrong(3L, 3L), Some("gave [3, 3], in which 3 does not come after 3"))
    val many = wrong((1L to 30L).map(_ * 2): _*)
    assert(clue(many).exists(_.endsWith("36, 38, 40, ...], in which 6 is beyond 5, the end of the buffer")))
  }
}
