package org.apache.spark.sql.mullion.state.header

import scala.util.Random

import org.json4s.DefaultFormats
import org.json4s.jackson.Serialization

import org.apache.spark.sql.mullion.pyfunction.keyed.{KeyedFunctionHeader, RecordKeys}

import dev.mullion.windows.rules.Refinements
import dev.mullion.{MullionSuite, TestSeed}

class HeaderJsonSuite extends MullionSuite {
  import HeaderJsonSuite._

  private val seed = TestSeed.value

  test(s"a header is written to the letter as json4s writes it (seed $seed)") {
    val random = new Random(seed)
    for (_ <- 1 to 200) {
      val several = Seq.fill(random.nextInt(3))(text(random) -> header(random)).toMap
      val headers = Seq(
        header(random),
        TogetherHeader(texts(random), several, maybe(random)(records(random)), maybe(random)(texts(random))),
        DrainHeader(header(random), header(random), random.nextLong(), random.nextLong()),
        KeyedFunctionHeader(random.nextInt(), texts(random)),
        RecordKeys(text(random), texts(random), List.fill(random.nextInt(3))(random.nextInt()), random.nextBoolean())
      )
      headers.foreach(header =>
        assertEquals(HeaderJson.text(header), Serialization.writePretty(header)(DefaultFormats))
      )
    }
  }

  test("a value without a JSON form is an error, and is not written") {
    interceptMessage[IllegalStateException]("A header has a java.util.Date, which JSON cannot represent") {
      HeaderJson.text(Some(new java.util.Date()))
    }
  }
}

private object HeaderJsonSuite {
  private def maybe[A](random: Random)(value: => A): Option[A] = Option.when(random.nextBoolean())(value)

  private val letters = "ab \"\\\n\t\u00e9\u2028{[,:"

  private def text(random: Random): String =
    Seq.fill(random.nextInt(6))(letters.charAt(random.nextInt(letters.length))).mkString

  private def texts(random: Random): List[String] = List.fill(random.nextInt(3))(text(random))

  private def records(random: Random) = FirstRecords(text(random), text(random), text(random), text(random), 3)

  private def window(random: Random): HeaderWindow = {
    def long = maybe(random)(random.nextLong())
    def int = maybe(random)(random.nextInt())
    def some = maybe(random)(text(random))
    HeaderWindow(
      long,
      long,
      long,
      long,
      some,
      long,
      long,
      some,
      long,
      long,
      some,
      some,
      int,
      int,
      int,
      some,
      int,
      long,
      long,
      long,
      maybe(random)(random.nextBoolean()),
      long,
      some
    )
  }

  private def rows(random: Random): StateHeader.Rows = {
    def truth = maybe(random)(random.nextBoolean())
    def long = maybe(random)(random.nextLong())
    def list = maybe(random)(texts(random))
    StateHeader.Rows(random.nextBoolean(), long, truth, maybe(random)(text(random)), long, list, list, truth)
  }

  private def header(random: Random): StateHeader = {
    def truth = maybe(random)(random.nextBoolean())
    def long = maybe(random)(random.nextLong())
    def list = maybe(random)(texts(random))
    StateHeader(
      random.nextInt(),
      window(random),
      random.nextLong(),
      random.nextLong(),
      random.nextBoolean(),
      Refinements(maybe(random)(1L + random.nextInt(9)), random.nextBoolean(), random.nextBoolean()),
      text(random),
      texts(random),
      texts(random),
      texts(random),
      text(random),
      texts(random),
      maybe(random)(rows(random)),
      truth,
      truth,
      list,
      maybe(random)(List.fill(random.nextInt(3))(StateHeader.Function(text(random), texts(random)))),
      truth,
      long,
      truth,
      long,
      maybe(random)(text(random)),
      maybe(random)(records(random)),
      list
    )
  }
}
