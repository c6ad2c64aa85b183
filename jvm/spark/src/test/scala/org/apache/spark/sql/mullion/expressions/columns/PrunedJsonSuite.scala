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
    """{"note": {"deep": [1, {"er": 2}]}, "k": [1], "inner": 3, "v": 4}""",
    // Strings and tokens that only some parsers accept, or read in their own way.
    "{\"k\": \"\\ud83d\", \"v\": 1}",
    "{\"k\": \"\\u0000 Zürich \\ud83d\\ude00 窓\", \"note\": \"é\", \"v\": -0}",
    """{'k': 'a', "v": 1} // a comment""",
    " {\"k\": \"a\", \"v\": 1}",
    "\ufeff{\"k\": \"a\", \"v\": 1}",
    "{\u0000\"k\": \"a\"}",
    """{"k": "a", "v": 1.0, "price": 1, "amount": "2"}""",
    """{"k": 1.50, "note": {"a" :  1}, "v": "1"}""",
    """{"k": "a", "v": 1, "k": "b", "v": null}""",
    """{"v": 007, "price": NaN, "k": "a"}"""
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

  test("bytes that are no UTF-8 have them") {
    val random = new Random(seed)
    val texts = Seq.fill(2000) {
      val bytes = """{"k": "aé窓😀", "note": "b", "v": 12}""".getBytes("UTF-8")
      for (_ <- 0 to random.nextInt(2)) bytes(random.nextInt(bytes.length)) = random.nextInt(256).toByte
      UTF8String.fromBytes(bytes)
    }
    for (fields <- Seq(Seq(0, 2), Seq(0, 2, 3))) {
      val expected = values(ofSpark(Map.empty), fields)
      val pruned = values(PrunedJson(ofSpark(Map.empty), fields), fields.indices)
      texts.foreach(text => assertEquals(pruned(InternalRow(text)), expected(InternalRow(text)), s"$text, seed $seed"))
    }
  }

  test("a random time has the microseconds of Spark's parser") {
    val random = new Random(seed)
    def digits(count: Int, below: Int) = s"%0${count}d".format(random.nextInt(below))
    val zones = Seq("", "Z", "+00:00", "-05:30", "+17:59", "+18:00", "+19:00", "z", "+0100", "+1:00", " UTC")
    def time: String = {
      val fraction = if (random.nextBoolean()) "" else "." + digits(1 + random.nextInt(9), 10)
      val complete = s"${digits(4, 10000)}-${digits(2, 14)}-${digits(2, 33)}${"T T".charAt(random.nextInt(3))}" +
        s"${digits(2, 25)}:${digits(2, 61)}:${digits(2, 61)}$fraction${zones(random.nextInt(zones.length))}"
      if (random.nextInt(4) > 0) complete
      else complete.patch(random.nextInt(complete.length), "-:T9 x".substring(random.nextInt(6)).take(1), 1)
    }
    val texts = Seq.fill(20000)(s"""{"ts": "$time"}""").map(text => InternalRow(UTF8String.fromString(text)))
    for {
      zone <- Seq("UTC", "+05:30", "Europe/Berlin")
      options <- Seq(Map.empty[String, String], Map("timestampFormat" -> "yyyy-MM-dd'T'HH:mm:ss"))
    } {
      val all = ofSpark(options).copy(timeZoneId = Some(zone))
      val expected = values(all, Seq(1))
      val pruned = values(PrunedJson(all, Seq(1)), Seq(0))
      texts.foreach(text => assertEquals(pruned(text), expected(text), s"${text.getUTF8String(0)} $zone, seed $seed"))
    }
  }

  test("after texts that are not plain, others have their values too") {
    val texts = for (i <- 0 until 5000) yield if (i % 1000 < 500) s"{'k': 'a', 'v': $i}" else s"""{"k": "a", "v": $i}"""
    assertSame(texts, Seq(0, 2))
  }

  test("a skipped string may be longer than Spark's parser accepts") {
    val long = "x" * 20000001
    assertSame(Seq(s"""{"k": "a", "note": "$long", "v": 1}""", s"""{"note": {"x": "$long"}, "k": "a"}"""), Seq(0, 2))
  }
}
