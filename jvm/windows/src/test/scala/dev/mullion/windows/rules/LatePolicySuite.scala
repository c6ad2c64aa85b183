package dev.mullion.windows.rules

import dev.mullion.MullionSuite
import dev.mullion.windows.WindowException

class LatePolicySuite extends MullionSuite {

  test("every policy is found by its name") {
    LatePolicy.all.foreach(policy => assertEquals(LatePolicy.named(policy.name), policy))
    assertEquals(LatePolicy.all.map(_.name), Seq("drop", "emit", "reopen", "reopen each"))
  }

  test("an unknown policy is rejected with the value and the existing names") {
    val refused = intercept[WindowException](LatePolicy.named("keep"))
    assertEquals(refused.condition, "INVALID_ARGUMENT")
    assertEquals(refused.getMessage, "late = \"keep\" is not one of 'drop', 'emit', 'reopen', 'reopen each'.")
  }
}
