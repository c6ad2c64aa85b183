package org.apache.spark.sql.mullion.python.flows

import java.nio.charset.StandardCharsets.UTF_8

import munit.FunSuite

import org.apache.spark.sql.mullion.python.folds.Odd
import org.apache.spark.unsafe.types.UTF8String

class JsonTextsSuite extends FunSuite {
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

  test("what only Python reads is odd: text with what is escaped, or without an end, other keys, and more") {
    for (
      odd <- Seq("{\"a\": \"\\n\"}", """{"a": "b}""", """{"b": "c"}""", """{"a": "b", "c": 1}""", """{"a": "b"} 1""")
    )
      intercept[Odd.type](read("""{"a": "b"}""", odd))
  }
}
