package dev.mullion

import org.apache.spark.SparkThrowable

import dev.mullion.windows.rules.LatePolicy

class MullionExceptionSuite extends MullionSuite {

  test("the rules of windows throw errors that Spark can report") {
    val error = intercept[MullionException](LatePolicy.named("later"))
    assertEquals(error.condition, "INVALID_ARGUMENT")
    assertEquals((error: SparkThrowable).getCondition, "MULLION_INVALID_ARGUMENT")
  }
}
