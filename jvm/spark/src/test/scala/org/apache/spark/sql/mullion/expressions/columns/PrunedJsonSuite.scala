package org.apache.spark.sql.mullion.expressions.columns

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  BoundReference,
  Expression,
  GetStructField,
  JsonToStructs,
  UnsafeProjection
}
import org.apache.spark.sql.types.{StringType, StructType}
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.{MullionSuite, TestSeed}

/** The columns of a text, compared with those of Spark's expression. */
class PrunedJsonSuite extends MullionSuite {
  private val seed = TestSeed.value
  private val columns = StructType.fromDDL(
    "k string, ts timestamp, v bigint, note string, price double, list array<int>, inner struct<x: int, y: array<string>>, " +
      "day date, yes boolean, amount decimal(10, 2), many map<string, int>"
  )

  private def ofSpark(options: Map[String, String]): JsonToStructs =
    JsonToStructs(columns, options, BoundReference(0, StringType, nullable = true), Some("UTC"))

  private def values(json: Expression, fields: Seq[Int]): InternalRow => InternalRow = {
    val project = UnsafeProjection.create(fields.map(GetStructField(json, _)))
    row => project(row).copy()
  }

  private def assertSame(texts: Seq[String], fields: Seq[Int], options: Map[String, String] = Map.empty): Unit = {
    val expected = values(ofSpark(options), fields)
    val pruned = values(PrunedJson(ofSpark(options), fields), fields.indices)
    texts.foreach { text =>
      val row = InternalRow(UTF8String.fromString(text))
      assertEquals(pruned(row), expected(row), s"$text, columns $fields, seed $seed")
    }
  }

  private val examples = Seq(
    "",
    "null",
    "{}",
    "[]",
    """{"k": "a", "v": 1}""",
    """[{"k": "a", "note": 1, "v": 1}, {"k": "b"}]""",
    // An error of a column that is skipped: Spark keeps some of the others.
    """{"k": "a", "note": "\q", "v": 1}""",
    "{\"k\": \"a\", \"note\": \"two\nlines\", \"v\": 1}",
    """{"k": "a", "inner": {"x": }, "v": 1}""",
    """{"k": "a", "list": [1, "x", 3], "v": 1}""",
    """{"k": "a", "price": tru, "v": 1}""",
    """{"k": "a", "price": +1, "v": 1}""",
    """{"k": "a", "v": 1""",
    """{"k": "a", "v": 1} {""",
    // The same of a column that is parsed.
    """{"k": "a", "v": "one", "note": "b"}""",
    """{"k": "a", "k": "b", "v": 99999999999999999999}""",
    """{"note": {"deep": [1, {"er": 2}]}, "k": [1], "inner": 3, "v": 4}"""
  )

  test("a text has the values that it has if all columns are parsed, with errors too") {
    (0 until columns.length).combinations(2).foreach(assertSame(examples, _))
  }

  test("a random text has them, with random columns and options") {
    val random = new Random(seed)
    val scalars =
      Seq("1", "-2.5", "\"a\"", "\"2026-01-02T03:04:05Z\"", "\"2026-01-02\"", "true", "null", "1e99", "NaN", "\"\"")
    def value(depth: Int): String = random.nextInt(if (depth > 2) 6 else 9) match {
      case 6 => Seq.fill(random.nextInt(4))(value(depth + 1)).mkString("[", ", ", "]")
      case 7 => Seq("x", "y", "z").map(name => s""""$name": ${value(depth + 1)}""").mkString("{", ", ", "}")
      case _ => scalars(random.nextInt(scalars.length))
    }
    def text: String = {
      val fields = random.shuffle(columns.fieldNames.toSeq :+ "other").take(random.nextInt(12))
      val complete = fields.map(name => s""""$name": ${value(0)}""").mkString("{", ", ", "}")
      // Half of them have a character that is missing or another one.
      if (random.nextBoolean()) complete
      else
        complete.patch(
          random.nextInt(complete.length),
          if (random.nextBoolean()) "" else "\\{\"\n,+x".charAt(random.nextInt(7)).toString,
          1
        )
    }
    val options = Seq(
      Map.empty[String, String],
      Map("allowSingleQuotes" -> "false"),
      Map("primitivesAsString" -> "true"),
      Map("allowNonNumericNumbers" -> "false", "timestampFormat" -> "yyyy-MM-dd")
    )
    for (_ <- 1 to 200) {
      val fields = random.shuffle((0 until columns.length).toList).take(1 + random.nextInt(4)).sorted
      assertSame(Seq.fill(50)(text), fields, options(random.nextInt(options.length)))
    }
  }

  test("a skipped string may be longer than Spark's parser accepts") {
    val long = "x" * 20000001
    assertSame(Seq(s"""{"k": "a", "note": "$long", "v": 1}""", s"""{"note": {"x": "$long"}, "k": "a"}"""), Seq(0, 2))
  }
}
