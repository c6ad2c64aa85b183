package org.apache.spark.sql.mullion.pyfunction.dataflow

import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Random

import org.json4s._
import org.json4s.jackson.JsonMethods.parse

import org.apache.spark.sql.mullion.pyfunction.expression.{Columns, Item, Untranslatable}
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.MullionSuite

class JsonTextsSuite extends MullionSuite {
  private def read(lines: String*): Columns = {
    val bytes = lines.mkString.getBytes(UTF_8)
    val ends = lines.scanLeft(0)(_ + _.getBytes(UTF_8).length).toArray
    val rows = lines.indices.filter(lines(_).trim.nonEmpty).toArray
    JsonTexts.columns(new Columns.Slices(bytes, ends.init, ends.tail), rows, lines.length)
  }

  private def valuesOf(columns: Columns, rows: Int*): Seq[Item] = rows.map(columns.item).map {
    case Item.Dict(_, Array(one)) => one
    case other                    => fail(s"$other is no dict of one item")
  }

  private def text(of: String): Item = Item.Text(UTF8String.fromString(of))

  test("texts stay texts behind which other values come, and an empty text is one of them") {
    val columns = read("""{"a": "é"}""", " ", """{"a": ""}""", """{"a":1}""", """{"a": "b"}""", """{"a": null}""")
    assertEquals(valuesOf(columns, 0, 2, 3, 4, 5), Seq(text("é"), text(""), Item.Int(1), text("b"), Item.Nothing))
  }

  test("text that only Python reads is unsupported: escapes, missing ends, other keys, and more") {
    for (
      odd <- Seq("{\"a\": \"\\n\"}", """{"a": "b}""", """{"b": "c"}""", """{"a": "b", "c": 1}""", """{"a": "b"} 1""")
    )
      intercept[Untranslatable.type](read("""{"a": "b"}""", odd))
  }

  test("texts are read like by another JSON parser, with any blanks and values") {
    val random = new Random(11)
    def pick[T](of: T*): T = of(random.nextInt(of.length))
    for (_ <- 1 to 300) {
      val isSteady = random.nextBoolean()
      def blank = if (isSteady && random.nextInt(20) > 0) " " else pick("", " ", "  ", "\t")
      def value = pick(
        "\"\"",
        "\"a b\"",
        "\"é,:}\"",
        "\"a long text of more than eight\"",
        "0",
        "-12",
        "1.5",
        "2e3",
        "true",
        "null"
      )
      val lines = Seq.fill(1 + random.nextInt(12)) {
        s"""$blank{"a"$blank:$blank$value,$blank"o":$blank{"b":$value$blank}$blank,"c":$value$blank}$blank"""
      }
      val columns = read(lines: _*)
      lines.zipWithIndex.foreach { case (line, row) => assertEquals(jsonOf(columns.item(row)), parse(line), line) }
    }
  }

  private def jsonOf(item: Item): JValue = item match {
    case Item.Dict(names, items) => JObject(names.list.zip(items.map(jsonOf)).toList)
    case Item.Text(held)         => JString(held.toString)
    case Item.Int(held)          => JInt(held)
    case Item.Float(held)        => JDouble(held)
    case Item.Bool(held)         => JBool(held)
    case Item.Nothing            => JNull
    case other                   => fail(s"$other is nothing of JSON's")
  }
}
