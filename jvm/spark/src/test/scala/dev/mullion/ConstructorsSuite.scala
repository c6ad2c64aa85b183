package dev.mullion

import org.apache.spark.sql.functions.col

import munit.FunSuite

/** Invalid lengths and numbers are rejected when a spec is created, with the value and the fix. */
class ConstructorsSuite extends FunSuite {
  private val day = Tumbling.days(1, "UTC")
  private val year = Tumbling.months(12, "UTC")
  private val value = col("v")

  private val positiveLengths: Seq[(String, String => Any)] = Seq(
    "Tumbling" -> (Tumbling(_)),
    "Tumbling.fromFirstRow" -> (Tumbling.fromFirstRow(_)),
    "Sliding, size" -> (Sliding(_, "1 minute")),
    "Sliding, slide" -> (Sliding("1 hour", _)),
    "Cumulate, size" -> (Cumulate(_, "1 minute")),
    "Cumulate, step" -> (Cumulate("1 hour", _)),
    "Cumulate.within" -> (Cumulate.within(day, _)),
    "Session" -> (Session(_)),
    "Session.maxLength" -> (Session("1 second").maxLength(_)),
    "Session.byRow.maxLength" -> (Session.byRow(value).maxLength(_)),
    "Session.endsWith.maxLength" -> (Session("1 second").endsWith(value).maxLength(_)),
    "Count.timeout" -> (Count(3).timeout(_)),
    "Count.forgettingAfter" -> (Count(3).forgettingAfter(_)),
    "Global.forgettingAfter" -> (Global.every(3).forgettingAfter(_)),
    "PerKey.forgettingAfter" -> (PerKey().forgettingAfter(_)),
    "Early.every" -> (Early.every(_)),
    "Early.everyWall" -> (Early.everyWall(_)),
    "Watermark" -> (Watermark(_))
  )

  private val otherLengths: Seq[(String, String => Any)] = Seq(
    "Around, before" -> (Around(_)),
    "Around, after" -> (Around("1 minute", _)),
    "Watermark.withMaxAhead" -> (Watermark().withMaxAhead(_))
  )

  private val numbers: Seq[(String, Int => Any)] = Seq(
    "Tumbling.days" -> (Tumbling.days(_, "UTC")),
    "Tumbling.weeks" -> (Tumbling.weeks(_, "UTC")),
    "Tumbling.months" -> (Tumbling.months(_, "UTC")),
    "Sliding.days, size" -> (Sliding.days(_, 1, "UTC")),
    "Sliding.days, slide" -> (Sliding.days(7, _, "UTC")),
    "Sliding.weeks, size" -> (Sliding.weeks(_, 1, "UTC")),
    "Sliding.weeks, slide" -> (Sliding.weeks(2, _, "UTC")),
    "Sliding.months, size" -> (Sliding.months(_, 1, "UTC")),
    "Sliding.months, slide" -> (Sliding.months(2, _, "UTC")),
    "Cumulate.withinByDays" -> (Cumulate.withinByDays(day, _)),
    "Cumulate.withinByMonths" -> (Cumulate.withinByMonths(year, _)),
    "Count" -> (n => Count(n.toLong)),
    "Count, every" -> (n => Count(3, n.toLong)),
    "Global.every" -> (n => Global.every(n.toLong)),
    "Early.count" -> (n => Early.count(n.toLong)),
    "Early.orCount" -> (n => Early.every("1 minute").orCount(n.toLong)),
    "functions.topN" -> (functions.topN(_, value, value))
  )

  private def check[A](name: String, create: A => Any, values: A*): Unit = test(name) {
    for (value <- values) {
      val message = intercept[MullionException](create(value)).getMessage
      assert(clue(message).contains(value.toString))
      assert(Seq("Give", "Write").exists(clue(message).contains(_)))
      // Texts and options are spelt as in Scala.
      assert(!"""=>|\w='|\('""".r.findFirstIn(message).isDefined, message)
    }
  }

  for ((name, create) <- positiveLengths) check(name, create, "0 seconds", "-5 minutes", "soon", "1 month", "")
  for ((name, create) <- otherLengths) check(name, create, "-5 minutes", "soon", "1 month", "")
  for ((name, create) <- numbers) check(name, create, 0, -3)

  test("zero is a length where there may be none") {
    otherLengths.foreach { case (_, create) => create("0 seconds") }
  }
}
