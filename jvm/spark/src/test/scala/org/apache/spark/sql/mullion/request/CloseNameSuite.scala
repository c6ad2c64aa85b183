package org.apache.spark.sql.mullion.request

import dev.mullion.MullionSuite

class CloseNameSuite extends MullionSuite {

  test("a name is close as difflib of Python has it") {
    val names = Seq("carrier", "origin", "ts", "Delay")
    assertEquals(CloseName("carier", names), Some("carrier"))
    assertEquals(CloseName("tss", names), Some("ts"))
    assertEquals(CloseName("DELAYS", names), Some("Delay"))
    assertEquals(CloseName("speed", names), None)
    assertEquals(CloseName("", names), None)
    assertEquals(CloseName("x" * 10000, names), None)
    // SequenceMatcher(None, "abxcd", "abcd").ratio(), and of two others
    assertEquals(CloseName.likeness("abxcd", "abcd"), 8.0 / 9)
    assertEquals(CloseName.likeness("id", "user_id"), 4.0 / 9)
    assertEquals(CloseName.likeness("qabxcd", "abycdf"), 8.0 / 12)
  }
}
