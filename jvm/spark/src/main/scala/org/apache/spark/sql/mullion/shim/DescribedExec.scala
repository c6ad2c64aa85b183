package org.apache.spark.sql.mullion.shim

import org.apache.spark.sql.execution.SparkPlan

/** A physical operator whose one line is also its text in `explain("formatted")`, where Spark leaves it out. */
trait DescribedExec extends SparkPlan {

  override def verboseStringWithOperatorId(): String = s"$formattedNodeName\n${simpleString(Int.MaxValue)}\n"
}
