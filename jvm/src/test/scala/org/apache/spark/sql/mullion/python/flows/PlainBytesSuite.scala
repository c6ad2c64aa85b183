package org.apache.spark.sql.mullion.python.flows

import scala.util.Random

import munit.FunSuite

class PlainBytesSuite extends FunSuite {
  private val some = "az 09~!\"\r\n\t\u0000\u007f\u0001".getBytes :+ -1.toByte :+ -128.toByte

  /** Mostly plain, so that there are runs of eight. */
  private def bytes(random: Random): Array[Byte] =
    Array.fill(random.nextInt(60))(if (random.nextInt(12) == 0) some(random.nextInt(some.length)) else 'x'.toByte)

  test("what is found eight bytes at once is what is found one by one") {
    val random = new Random(7)
    for (_ <- 1 to 20000) {
      val of = bytes(random)
      val at = random.nextInt(of.length + 1)
      val until = at + random.nextInt(of.length - at + 1)
      val mark: Byte = if (random.nextBoolean()) '"' else '\n'
      val odd = of.indexWhere(byte => byte < ' ' || byte == mark, at)
      assertEquals(PlainBytes.after(of, at, until, mark), if (odd < 0 || odd > until) until else odd)
      val end = of.indexOf('\n'.toByte, at)
      assertEquals(PlainBytes.endOfLine(of, at), if (end < 0) of.length else end)
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
