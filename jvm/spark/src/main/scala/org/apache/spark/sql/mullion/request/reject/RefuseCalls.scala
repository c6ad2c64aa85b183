package org.apache.spark.sql.mullion.request.reject

import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnresolvedHint}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.mullion.request.ResolveCalls

import dev.mullion.MullionException

/** Rejects every call, for a Spark on which Mullion cannot run. It uses as few of Spark's APIs as possible. */
private[mullion] final class RefuseCalls(why: MullionException) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan.foreach {
      case UnresolvedHint(ResolveCalls.hint, _, _) => throw why
      case _                                       =>
    }
    plan
  }
}
