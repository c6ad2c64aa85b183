package org.apache.spark.sql.mullion.sqlfunctions

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenFallback, GenerateUnsafeProjection}
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.execution.HiveResult
import org.apache.spark.sql.mullion.SparkSuite
import org.apache.spark.sql.mullion.request.Installation
import org.apache.spark.sql.mullion.shim.Classic
import org.apache.spark.sql.types._

import dev.mullion.windows.spec.AlignedWindow
import dev.mullion.{MullionException, MullionExtensions}

class FunctionsSuite extends SparkSuite {

  override protected def settings: Seq[(String, String)] =
    Seq("spark.sql.extensions" -> classOf[MullionExtensions].getName)

  private def shown(query: String): String = {
    val frame = spark.sql(query).asInstanceOf[Dataset[_]]
    HiveResult.hiveResultString(frame.queryExecution.executedPlan).mkString("\n")
  }

  for ((name, info, _) <- SqlFunctions.all) {
    test(s"the examples in the description of ${name.funcName} give what they show") {
      val examples = info.getExamples
        .split("\n")
        .map(_.trim)
        .filter(_.nonEmpty)
        .drop(1)
        .mkString("\n")
        .split("(^|\n)> ")
        .filter(_.nonEmpty)
      assert(examples.length >= 2, info.getExamples)
      examples.foreach { example =>
        val end = example.indexOf(";\n")
        assertEquals(shown(example.take(end)), example.drop(end + 2), example)
      }
    }

    test(s"DESCRIBE FUNCTION EXTENDED ${name.funcName} documents its purpose, its arguments and its first version") {
      val description =
        spark.sql(s"DESCRIBE FUNCTION EXTENDED ${name.funcName}").collect().map(_.getString(0)).mkString("\n")
      Seq(s"Function: ", name.funcName, "Usage: ", "Arguments:", "Examples:", "> SELECT", "Since: 0.1.0").foreach {
        part =>
          assert(description.contains(part), s"$part is not in:\n$description")
      }
      assert(!description.contains("_FUNC_"), description)
    }
  }

  test("generated code and the interpreter agree, over all of time") {
    val random = new Random(7)
    val rows = Seq(None, Some(Long.MinValue), Some(Long.MaxValue), Some(0L), Some(-1L)) ++
      Seq.fill(40)(Some(random.nextLong())) ++ Seq.fill(40)(Some(random.nextInt().toLong))
    val ts = BoundReference(0, TimestampType, nullable = true)
    val gap = BoundReference(1, LongType, nullable = true)
    val expressions = Seq
      .fill(25) {
        val size = 1L + random.nextInt(1000000000)
        val slide =
          Math.max(1L, if (random.nextBoolean()) size / (1 + random.nextInt(9)) else random.nextInt(1500000000).toLong)
        val window = AlignedWindow.sliding(size, slide, random.nextLong())
        val tumbling = AlignedWindow.tumbling(Math.max(1L, random.nextLong() >>> random.nextInt(63)), random.nextLong())
        Seq(
          MullionWindows(ts, AlignedWindow.sliding(size, Math.max(slide, size / 50 + 1), 3L)),
          MullionSlice(ts, window)
        ) ++
          Seq(MullionWindowStart(ts, tumbling), MullionWindowEnd(ts, tumbling))
      }
      .flatten ++ Seq(MullionSession(ts, gap), MullionSessionEnd(ts, gap), MullionSession(ts, Literal(Long.MaxValue)))

    expressions.foreach { e =>
      assert(!e.exists(_.isInstanceOf[CodegenFallback]), e)
      val (generated, interpreted) =
        (GenerateUnsafeProjection.generate(Seq(e)), InterpretedUnsafeProjection.createProjection(Seq(e)))
      rows.foreach { time =>
        val row = InternalRow(
          time.getOrElse(None.orNull),
          if (random.nextInt(5) == 0) None.orNull else Math.abs(random.nextLong())
        )
        assertEquals(generated(row), interpreted(row), s"$e of $time")
      }
    }
  }

  test("the SQL text of a function gives the same function") {
    val calls = Seq(
      "mullion_windows(ts, '90 seconds', INTERVAL 1 MINUTE, '-5 seconds')",
      "mullion_slice(ts, INTERVAL '0 00:01:30' DAY TO SECOND, '1 minute')",
      "mullion_window_start(ts, '1 day 2 hours')",
      "mullion_window_end(ts, '7 microseconds', '3 microseconds')",
      "mullion_session(ts, '10 minutes')",
      "mullion_session(ts, g)",
      "mullion_session_end(ts, t)",
      "mullion_top_n(2, ts, t, g)"
    )
    val input = spark.sql("SELECT TIMESTAMP '2013-01-01 10:07:00' AS ts, INTERVAL 1 HOUR AS g, '2 hours' AS t")
    def analysed(call: String): Expression =
      Classic.frame(input.selectExpr(call)).queryExecution.analyzed.expressions.head match {
        case Alias(e, _) => e
        case other       => other
      }
    calls.foreach { call =>
      val e = analysed(call)
      val plain = e.transform { case a: Attribute => a.withQualifier(Nil) }
      assertEquals(input.selectExpr(plain.sql).collect().toSeq, input.selectExpr(call).collect().toSeq, plain.sql)
    }
  }

  private val refusals = Seq(
    "mullion_windows(ts)" -> "takes 2 to 4 arguments and was given 1",
    "mullion_slice(ts, '10 seconds')" -> "Write mullion_slice(ts, size, slide[, offset])",
    "mullion_session(ts, '1 hour', '1 hour')" -> "takes 2 arguments and was given 3",
    "mullion_windows('2013-01-01', '10 seconds')" -> "of type STRING, and must be a TIMESTAMP",
    "mullion_window_start(DATE '2013-01-01', '10 seconds')" -> "of type DATE",
    "mullion_window_end(ts, v)" -> "may differ from row to row",
    "mullion_windows(ts, 10)" -> "of type INT, and must be an interval",
    "mullion_windows(ts, '10s')" -> "The size of mullion_windows is '10s', which is not an interval",
    "mullion_windows(ts, CAST(NULL AS STRING))" -> "must be an interval",
    "mullion_windows(ts, '1 month')" -> "months and years are of no fixed length",
    "mullion_windows(ts, INTERVAL 1 YEAR)" -> "months and years are of no fixed length",
    "mullion_windows(ts, '0 seconds')" -> "is 0 seconds, and must be longer than zero",
    "mullion_windows(ts, '1 hour', INTERVAL -5 MINUTES)" -> "The slide of mullion_windows is -5 minutes",
    "mullion_windows(ts, '1 hour', '1 hour', '1 month')" -> "The offset of mullion_windows",
    "mullion_windows(ts, '200000000 days')" -> "longer than a timestamp can span",
    "mullion_windows(ts, '1 day', '1 millisecond')" -> "up to 86400000 windows",
    "mullion_session(ts, '0 seconds')" -> "The gap of mullion_session is 0 seconds",
    "mullion_session_end(ts, v)" -> "The gap of mullion_session_end is",
    "mullion_top_n(2, ts)" -> "takes 3 or more arguments and was given 2. Write mullion_top_n(n, order_by, column[, ...])",
    "mullion_top_n(0, ts, v)" -> "The n of mullion_top_n is 0, of type INT, which is no number of rows",
    "mullion_top_n('2', ts, v)" -> "of type STRING, which is no number of rows",
    "mullion_top_n(CAST(NULL AS INT), ts, v)" -> "which is no number of rows",
    "mullion_top_n(v, ts, v)" -> "may differ from row to row",
    "mullion_top_n(2, map(1, 2), v)" -> "whose values have no order"
  )

  for ((call, why) <- refusals)
    test(s"$call is rejected by the analysis") {
      val input = spark.sql("SELECT TIMESTAMP '2013-01-01 10:07:00' AS ts, 5 AS v")
      val refusal = intercept[MullionException](input.selectExpr(call))
      assert(clue(refusal.getMessage).contains(why))
    }

  test("the functions are there in a session that was built without the extension, once Mullion was used in it") {
    val plain = Classic.session(spark).newSession()
    SqlFunctions.all.foreach(f =>
      plain.sessionState.functionRegistry.dropFunction(
        org.apache.spark.sql.mullion.shim.SparkVersionShim.builtinFunction(f._1.funcName)
      )
    )
    assert(!plain.catalog.functionExists("mullion_windows"))
    Installation.install(plain)
    Installation.install(plain)
    assertEquals(
      plain.sql("SELECT mullion_window_start(TIMESTAMP '2013-01-01 10:07:00', '1 hour') AS s").collect().length,
      1
    )
  }
}
