package org.apache.spark.sql.mullion

import java.nio.charset.StandardCharsets
import java.util.zip.CRC32

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.mullion.shim.Classic

/** The size of the cache of a query's state. A query must give the same firings with each size.
  *
  * A test case has one of three sizes, by a fixed hash of its name. The environment variable `MULLION_TEST_CACHES=all`
  * runs each case with all three. CONTRIBUTING.md documents the rule for both languages.
  */
final case class CacheSize(name: String, bytes: Option[String]) {
  private[mullion] def session(spark: SparkSession): SparkSession = {
    val own = Classic.session(spark.newSession())
    bytes.foreach(own.conf.set("spark.sql.streaming.stateStore.mullion.hotBytes", _))
    own
  }
}

object CacheSize {
  val all: Seq[CacheSize] =
    Seq(
      CacheSize("all in memory", None),
      CacheSize("2 kB in memory", Some("2k")),
      CacheSize("none in memory", Some("0"))
    )

  def of(test: String): CacheSize = all(number(test))

  /** True if each test case runs with all sizes. */
  val isComplete: Boolean = sys.env.get("MULLION_TEST_CACHES").contains("all")

  /** The sizes that a test case runs with. */
  def chosen(test: String): Seq[CacheSize] = if (isComplete) all else Seq(of(test))

  private def number(test: String): Int = {
    val hash = new CRC32
    hash.update(test.getBytes(StandardCharsets.UTF_8))
    (hash.getValue % all.length).toInt
  }
}
