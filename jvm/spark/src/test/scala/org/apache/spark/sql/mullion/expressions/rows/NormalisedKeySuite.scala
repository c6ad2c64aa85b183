package org.apache.spark.sql.mullion.expressions.rows

import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LocalRelation, LogicalPlan}
import org.apache.spark.sql.mullion.plan.build.analysis.WindowKeys
import org.apache.spark.sql.types._

import dev.mullion.{MullionException, MullionSuite}

class NormalisedKeySuite extends MullionSuite {
  private val map = MapType(StringType, IntegerType)
  private val kinds: Seq[DataType] = Seq(map, new StructType().add("inner", ArrayType(map)))

  private def key(kind: DataType) = AttributeReference("attributes", kind)()

  private def normalised(kind: DataType, rule: LogicalPlan => LogicalPlan) =
    WindowKeys.normalised(key(kind), LocalRelation(key(kind)), rule)

  test("a key that holds maps has them put in order of their entries") {
    kinds.foreach { kind =>
      val normalised = WindowKeys.normalised(key(kind), LocalRelation(key(kind)))
      assert(normalised.exists(_.isInstanceOf[SortedMap]), s"$normalised")
    }
  }

  test("a key with maps is rejected where no rule of Spark sorts them") {
    val rules: Seq[LogicalPlan => LogicalPlan] = Seq(identity, { case a: Aggregate => a.child; case other => other })
    for (kind <- kinds; rule <- rules) {
      val refused = intercept[MullionException](normalised(kind, rule))
      assertEquals(refused.condition, "UNSUPPORTED")
      assert(refused.getMessage.contains("The key attributes holds a map"), refused.getMessage)
      assert(refused.getMessage.contains("array_sort(map_entries(...))"), refused.getMessage)
    }
  }

  test("a key without maps asks for no such rule") {
    val none: LogicalPlan => LogicalPlan = _ => fail("the rule was asked")
    Seq(StringType, new StructType().add("a", IntegerType)).foreach { kind =>
      assert(!normalised(kind, none).exists(_.isInstanceOf[SortedMap]))
    }
  }
}
