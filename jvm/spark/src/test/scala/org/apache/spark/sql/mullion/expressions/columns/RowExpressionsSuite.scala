package org.apache.spark.sql.mullion.expressions.columns

import org.apache.spark.sql.classic.{Dataset, ExpressionUtils}
import org.apache.spark.sql.execution.WholeStageCodegenExec
import org.apache.spark.sql.functions._
import org.apache.spark.sql.mullion.SparkSuite
import org.apache.spark.sql.types.StructType

import dev.mullion.Facade

/** Expressions that depend on more than the columns of a row: in generated code, and interpreted. */
class RowExpressionsSuite extends SparkSuite {

  override protected def cores: Int = 2

  for ((how, whole, factory) <- Seq(("generated", true, "CODEGEN_ONLY"), ("interpreted", false, "NO_CODEGEN"))) {
    def configured(test: => Unit): Unit = {
      spark.conf.set("spark.sql.codegen.wholeStage", whole)
      spark.conf.set("spark.sql.codegen.factoryMode", factory)
      test
    }

    test(s"a counted condition leaves out what it would, and counts it wherever it is read, $how")(configured {
      val counter = Facade.counter(spark)
      // 7 of 20 are true, 7 false and 6 null.
      val condition = when(col("id") % 3 < 2, col("id") % 3 === 0)
      val rows = spark.range(0, 20, 1, 3).toDF()
      val counted = rows.where(Facade.counted(condition, counter))
      assertEquals(generated(counted.asInstanceOf[Dataset[_]]), whole)
      assertEquals(counted.collect().map(_.getLong(0)).toSeq, 0L.until(20L, 3L))
      assertEquals(counter.value.toLong, 13L)

      val marked = rows.select(Facade.counted(condition, counter).as("marked")).where(col("marked").isNull)
      assertEquals(marked.count(), 6L)
      assertEquals(counter.value.toLong, 26L, "each reading of a row counts")
      assertEquals(rows.where(Facade.counted(lit(true), counter)).count(), 20L)
      assertEquals(counter.value.toLong, 26L)
    })

    test(s"a condition on a text is that of each row's own text, and asked when it changes, $how")(configured {
      val counter = Facade.counter(spark)
      val condition = Facade.counted(col("text") =!= "b", counter)
      // a a a, b b b, null null null, c c c, a a a: a false or null answer is counted.
      val text = when(col("id") % 12 < 3, "a").when(col("id") < 6, "b").when(col("id") > 8, "c")
      val rows = spark.range(0, 15, 1, 1).select(text.as("text")).where(rand(0) >= 0)
      val answered = rows.select(Facade.perText(col("text"), condition).as("answer"))
      assertEquals(generated(answered.asInstanceOf[Dataset[_]]), whole)
      val is = answered.collect().map(row => if (row.isNullAt(0)) "null" else row.getBoolean(0).toString)
      assertEquals(is.toSeq, Seq("true", "false", "null", "true", "true").flatMap(Seq.fill(3)(_)))
      assertEquals(counter.value.toLong, 4L, "once for b, and for each null")
    })

    test(s"the shape of a text is that of its JSON, and there is none of another text, $how")(configured {
      val texts = Seq(
        " {\"a\":1, \"b\\u0063\":{\"x\":[]}, \"d\\n\":2}" -> "{\na\n\nbc\n",
        "{}" -> "{",
        "null" -> "n",
        "[1.5e-3, true]" -> ".",
        "" -> "null",
        """{"a":1}{"a":2}""" -> "null",
        "{'a':1}" -> "null"
      )
      val text = element_at(array(texts.map { case (text, _) => lit(text) }: _*), col("id").cast("int") + 1)
      val rows = spark.range(0, texts.size.toLong, 1, 1).select(text.as("text"))
      val shapes = rows.select(Facade.jsonShape(col("text")).as("shape"))
      assertEquals(generated(shapes.asInstanceOf[Dataset[_]]), whole)
      assertEquals(shapes.collect().map(row => String.valueOf(row.get(0))).toSeq, texts.map(_._2))
    })

    test(s"a text fits columns that hold its value as Python would read it, $how")(configured {
      val columns = StructType.fromDDL(
        "n bigint, f double, s string, b boolean, l array<bigint>, r struct<x: bigint, y: string>, u void, `caf\u00e9` string"
      )
      val fit = Seq(
        """{"n": 1, "s": "", "b": true}""" -> "{\nn\n\ns\n\nb\n",
        """{"f": 1.0, "n": null}""" -> "{\nf\n\nn\n",
        """{"f": -5}""" -> "{\nf\n\n\u0000f\n",
        """{"n": -9223372036854775808}""" -> "{\nn\n",
        """{"l": [1, null], "u": null}""" -> "{\nl\n\nu\n",
        """{"r": {"y": null, "x": 1}}""" -> "{\nr\n",
        "{\"caf\\u00e9\": \"x\"}" -> "{\ncaf\u00e9\n",
        "{}" -> "{",
        "null" -> "n",
        """{"n": 1} x""" -> "null"
      )
      val unfit = Seq(
        """{"n": 1.0}""",
        """{"n": 9223372036854775808}""",
        """{"n": 1, "n": 2}""",
        """{"n": 1, "N": 2}""",
        """{"more": null}""",
        """{"f": 12345678901234567}""",
        """{"f": 1e400}""",
        """{"f": NaN}""",
        """{"s": 1}""",
        """{"b": 0}""",
        """{"l": [1, 2.5]}""",
        """{"l": [[1]]}""",
        """{"l": {}}""",
        """{"r": {"x": 1}}""",
        """{"r": {"x": 1, "y": "", "z": 1}}""",
        """{"r": {"x": 1, "x": 1}}""",
        """{"r": []}""",
        """{"u": {}}""",
        "[]",
        "5"
      ).map(_ -> "!")
      val texts = fit ++ unfit
      val text = element_at(array(texts.map { case (text, _) => lit(text) }: _*), col("id").cast("int") + 1)
      val rows = spark.range(0, texts.size.toLong, 1, 1).select(text.as("text"))
      val fits = rows.select(Facade.jsonFit(col("text"), columns.json, isScalar = false).as("fit"))
      assertEquals(generated(fits.asInstanceOf[Dataset[_]]), whole)
      assertEquals(fits.collect().map(row => String.valueOf(row.get(0))).toSeq, texts.map(_._2))
      val values =
        Seq("5" -> ".\n\u0000value\n", "5.5" -> ".", "null" -> "n", "\"5\"" -> "!", "{\"value\": 5.5}" -> "!")
      val scalar = StructType.fromDDL("value double").json
      val shown = values.map { case (text, _) =>
        spark.range(1).select(Facade.jsonFit(lit(text), scalar, isScalar = true))
      }
      assertEquals(shown.map(_.head().getString(0)), values.map(_._2))
    })

    test(s"the shard of a text is that of its field as Python reads it, $how")(configured {
      val shards = Seq(
        """{"k": "a"}""" -> "a",
        """{"k": "a", "k": {"k": "b"}}""" -> "~",
        """{"x": {"k": 2}, "k": 1.0}""" -> "1",
        """{"k": 1.5}""" -> "~",
        """{"k": -0.0}""" -> "0",
        """{"k": 9223372036854775807}""" -> "9223372036854775807",
        """{"k": 9223372036854775808}""" -> "~",
        """{"k": 9223372036854775808.0}""" -> "~",
        """{"k": NaN}""" -> "~",
        """{"k": false}""" -> "false",
        """{"k": null}""" -> "null",
        "{}" -> "null",
        "5" -> "5",
        "no" -> "null"
      )
      val text = element_at(array(shards.map { case (text, _) => lit(text) }: _*), col("id").cast("int") + 1)
      val results = spark.range(0, shards.size.toLong, 1, 1).select(Facade.jsonShard(text, "k"))
      assertEquals(results.collect().map(row => String.valueOf(row.get(0))).toSeq, shards.map(_._2))
    })

    test(s"a row's place is its partition's and its own in that, and begins again with each batch, $how")(configured {
      val rows = spark.range(0, 5, 1, 2).select(Facade.rowInBatch.as("row"))
      assertEquals(generated(rows.asInstanceOf[Dataset[_]]), whole)
      for (_ <- 1 to 2)
        assertEquals(rows.collect().map(_.getLong(0)).toSeq, Seq(0L, 1L, 1L << 33, (1L << 33) + 1, (1L << 33) + 2))
    })

    test(s"a batch has the number that its operator has, and none where there is no operator, $how")(configured {
      val number = BatchNumber.forBatch(7)(BatchNumber(None))
      val rows = spark.range(0, 3, 1, 2).select(ExpressionUtils.column(number).as("batch"))
      assertEquals(generated(rows.asInstanceOf[Dataset[_]]), whole)
      assertEquals(rows.collect().map(_.getLong(0)).toSeq, Seq(7L, 7L, 7L))
      failsWith("only known below a window")(spark.range(3).select(Facade.batchNumber).collect())
    })
  }

  private def failsWith(says: String)(run: => Any): Unit = {
    val error = intercept[Exception](run)
    assert(error.toString.contains(says), error)
  }

  private def generated(rows: Dataset[_]): Boolean =
    rows.queryExecution.executedPlan.exists(_.isInstanceOf[WholeStageCodegenExec])
}
