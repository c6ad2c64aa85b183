package org.apache.spark.sql.mullion.request.reject

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.mullion.SparkSuite

import dev.mullion.MullionException

/** The additions of `MullionExtensions` on a Spark without an API that Mullion calls. */
class RefusingExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = Unfit.refuse(extensions, RefusingExtensions.why)
}

object RefusingExtensions {
  val why: MullionException = MullionException.unsupported("This is another Spark.")
}

class UnfitSuite extends SparkSuite {

  override protected def settings: Seq[(String, String)] =
    Seq("spark.sql.extensions" -> classOf[RefusingExtensions].getName)

  test("Apache's Spark of this line is fit") {
    assertEquals(Unfit.reason, None)
  }

  test("a session on an unsupported Spark works, and rejects calls of Mullion") {
    assertEquals(spark.sql("SELECT count(*) FROM range(3)").head().getLong(0), 3L)
    Seq(
      "SELECT * FROM mullion_recover('x')",
      "SELECT mullion_window_start(timestamp'2024-01-01', '1 hour')",
      "SELECT /*+ mullion('{}') */ * FROM range(3)"
    ).foreach { text =>
      val refused = intercept[Throwable](spark.sql(text).collect())
      val causes = Iterator.iterate(refused)(_.getCause).takeWhile(Option(_).isDefined)
      assert(causes.contains(RefusingExtensions.why), text)
    }
  }
}
