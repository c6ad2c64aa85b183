package org.apache.spark.sql.mullion.pyfunction.dataflow

import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Random

import org.apache.spark.sql.mullion.pyfunction.expression.Columns

import dev.mullion.MullionSuite

class PlainBytesSuite extends MullionSuite {
  private val some = "az 09~!\"\\\r\n\t\u0000\u007f\u0001".getBytes :+ -1.toByte :+ -128.toByte

  /** Mostly plain, so that there are runs of eight. */
  private def bytes(random: Random): Array[Byte] =
    Array.fill(random.nextInt(60))(if (random.nextInt(12) == 0) some(random.nextInt(some.length)) else 'x'.toByte)

  test("a search by eight bytes finds the same as one by one") {
    val random = new Random(7)
    for (_ <- 1 to 20000) {
      val of = bytes(random)
      val at = random.nextInt(of.length + 1)
      val until = at + random.nextInt(of.length - at + 1)
      val mark: Byte = if (random.nextBoolean()) '"' else '\n'
      val odd = of.indexWhere(byte => byte < ' ' || byte == mark, at)
      assertEquals(PlainBytes.after(of, at, until, mark), if (odd < 0 || odd > until) until else odd)
      val end = of.indexOf('\n'.toByte, at)
      val ending = of.indexWhere(byte => byte == '"' || byte == '\\' || (byte >= 0 && byte < ' '), at)
      assertEquals(PlainBytes.endOfText(of, at, until), if (ending < 0 || ending > until) until else ending)
      assertEquals(PlainBytes.endOfLine(of, at), if (end < 0) of.length else end)
    }
  }

  test("texts in bytes are numbered as they are met, however many there are") {
    val random = new Random(9)
    for (apart <- Seq(1, 3, 40, 5000)) {
      val texts = Vector.fill(4000)((0 to random.nextInt(3)).map(_ => random.nextInt(apart)).mkString("é-", "/", ""))
      val bytes = texts.mkString.getBytes(UTF_8)
      val ends = texts.scanLeft(0)(_ + _.getBytes(UTF_8).length).toArray
      val rows = texts.indices.filter(_ => random.nextInt(4) > 0).toArray
      val numbered = Columns.asTexts(new Columns.Slices(bytes, ends.init, ends.tail), rows, texts.length)
      assertEquals(rows.toSeq.map(row => numbered.apart(numbered.of(row)).toString), rows.toSeq.map(texts))
      assertEquals(numbered.apart.toSeq.map(_.toString), rows.toSeq.map(texts).distinct)
    }
  }

  test("places by their numbers keep their order where these are equal") {
    val random = new Random(8)
    for (_ <- 1 to 200) {
      val numbers = Array.fill(random.nextInt(30))(random.nextInt(5))
      assertEquals(FlowBatch.sorted(numbers, 5).toSeq, numbers.indices.sortBy(numbers(_)))
    }
  }
}
