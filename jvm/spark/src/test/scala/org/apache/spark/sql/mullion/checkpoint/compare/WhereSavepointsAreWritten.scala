package org.apache.spark.sql.mullion.checkpoint.compare

import scala.concurrent.ExecutionContext.parasitic

import org.apache.spark.sql.mullion.shim.SparkVersionShim

import dev.mullion.{MullionException, MullionSuite}

/** Tests of savepoints, which end in an old version of Spark at the first error: savepoints must be rejected there with
  * the version's name, and for no other reason.
  */
trait WhereSavepointsAreWritten extends MullionSuite {

  protected val areWritten: Boolean = SparkVersionShim.beginsAnywhere

  override def munitTestTransforms: List[TestTransform] =
    super.munitTestTransforms :+ new TestTransform(
      "ends at the refusal",
      test =>
        if (areWritten) test
        else
          test.withBodyMap(_.recover {
            case e: MullionException if e.getMessage.contains("Write the savepoint on Spark 4.2 or newer") => ()
          }(parasitic))
    )
}
