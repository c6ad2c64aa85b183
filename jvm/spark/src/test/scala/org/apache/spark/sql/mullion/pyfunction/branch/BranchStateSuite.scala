package org.apache.spark.sql.mullion.pyfunction.branch

import dev.mullion.MullionSuite

class BranchStateSuite extends MullionSuite {
  private val branch = BranchState("slow", number = 7, since = 3, partitions = 2)

  test("a window's versions are counted from the batch in which it came") {
    assert(Seq(2L, 3L, 9L).map(branch.versionAfter) == Seq(0L, 1L, 7L))
  }

  test("the state of a removed window keeps its version, and continues from it when the window returns") {
    val gone = branch.goneIn(6)
    assert(Seq(4L, 5L, 6L, 20L).map(gone.versionAfter) == Seq(2L, 3L, 3L, 3L))
    assert(gone.goneIn(8) == gone)
    val back = gone.backIn(9)
    assert(back == branch.copy(since = 6))
    assert(Seq(8L, 9L).map(back.versionAfter) == Seq(3L, 4L))
    assert(back.backIn(12) == back)
    // The batch is retried.
    assert(branch.goneIn(6).backIn(6) == branch)
  }

  test("names are quoted as Python quotes them for folders") {
    val names = Seq("revenue_5m", "_hidden", ".dot", "a/b c%", "é", "from data 1f", "x~-.y")
    assert(
      names.map(BranchState.quoted) ==
        Seq("revenue_5m", "%5Fhidden", "%2Edot", "a%2Fb c%25", "%C3%A9", "from data 1f", "x~-.y")
    )
  }
}
