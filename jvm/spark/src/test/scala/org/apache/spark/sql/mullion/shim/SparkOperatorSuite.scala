package org.apache.spark.sql.mullion.shim

import org.apache.spark.sql.catalyst.expressions.{AttributeReference, Literal}
import org.apache.spark.sql.execution.FilterExec
import org.apache.spark.sql.functions.{count, timestamp_seconds}
import org.apache.spark.sql.mullion.operator.WindowExec
import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolder}
import org.apache.spark.sql.streaming.Trigger

import dev.mullion.{Asked, MullionExtensions}

/** Spark copies operators in several ways, and each copy keeps the facts. */
class SparkOperatorSuite extends SparkSuite {

  override protected def settings: Seq[(String, String)] =
    Seq("spark.sql.extensions" -> classOf[MullionExtensions].getName, "spark.sql.shuffle.partitions" -> "1")

  private lazy val operator: WindowExec = TemporaryFolder.use { folder =>
    spark.range(9).write.parquet(folder.resolve("rows").toString)
    val rows = spark.readStream.schema("id bigint").parquet(folder.resolve("rows").toString)
    val timed = rows.withColumn("ts", timestamp_seconds(rows("id"))).withWatermark("ts", "1 second")
    val options = Asked.options.withTime(timed("ts"))
    val panes =
      Asked.windowed(timed, Asked.tumbling(1000000L, 0), Array(timed("id")), options, Array(count("*").as("n")))
    val query = panes.writeStream
      .format("noop")
      .option("checkpointLocation", folder.resolve("checkpoint").toString)
      .trigger(Trigger.AvailableNow())
      .start()
    query.awaitTermination()
    lastPlan(query).collectFirst { case window: WindowExec => window }.get
  }

  private def isSame(copy: WindowExec): Unit = {
    assert(copy ne operator)
    assertEquals(copy.getStateInfo, operator.getStateInfo)
    assert(clue(operator.batchTimestampMs).isDefined)
    assertEquals(copy.batchTimestampMs, operator.batchTimestampMs)
    assertEquals(copy.eventTimeWatermarkForLateEvents, operator.eventTimeWatermarkForLateEvents)
    assertEquals(copy.eventTimeWatermarkForEviction, operator.eventTimeWatermarkForEviction)
    assert(copy.program eq operator.program)
    assertEquals(copy.output, operator.output)
    assertEquals(copy.children.length, 2)
  }

  test("a clone, a copy of the arguments and one with other children are the same operator") {
    Seq(
      operator.clone(),
      operator.makeCopy(operator.productIterator.map(_.asInstanceOf[AnyRef]).toArray),
      operator.withNewChildren(operator.children.updated(0, FilterExec(Literal.TrueLiteral, operator.left))),
      operator.copy(batchTimestampMs = operator.batchTimestampMs)
    ).foreach {
      case copy: WindowExec => isSame(copy)
      case other            => fail(s"$other")
    }
    val clone = operator.clone()
    assert(clone.children.zip(operator.children).forall { case (copy, of) => copy ne of })
  }

  test("a change of expressions reaches the operator") {
    val keys = operator.groupingAttributes
    operator.transformExpressions { case key: AttributeReference =>
      key.withName("renamed")
    } match {
      case copy: WindowExec =>
        isSame(copy)
        assertEquals(copy.groupingAttributes.map(_.exprId), keys.map(_.exprId))
        assertEquals(copy.groupingAttributes.map(_.name).distinct, Seq("renamed"))
      case other => fail(s"$other")
    }
  }
}
