package org.apache.spark.sql.mullion

import java.sql.Timestamp

import scala.collection.mutable

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions._
import org.apache.spark.sql.mullion.plan.options.WindowOptions
import org.apache.spark.sql.mullion.query.ClockedQuery
import org.apache.spark.sql.{DataFrame, Encoders, Row}

import dev.mullion.windows.spec.WindowSpec
import dev.mullion.{Asked, Facade, MullionExtensions}

/** Queries with several keys in one partition of RocksDB, which must fire the same with any cache. They run without the
  * test mode that overwrites borrowed rows: with the rows that RocksDB reuses.
  *
  * All rows of a key have one value, a power of ten, so a sum identifies the keys of its rows.
  */
class CacheSizeSuite extends SparkSuite {
  import CacheSizeSuite._

  override protected def settings: Seq[(String, String)] = Seq(
    "spark.sql.extensions" -> classOf[MullionExtensions].getName,
    "spark.sql.shuffle.partitions" -> "1",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled" -> "true",
    "spark.sql.streaming.stateStore.mullion.expireRows" -> "false"
  )

  test("panes hold the rows of their own key, and are the same with every size of the cache") {
    TemporaryFolder.use { folder =>
      val queries = for {
        (name, window) <- windows
        size <- sizes
      } yield new Running(name, size, size.session(spark), window, folder.resolve(s"$name ${size.name}").toString)
      try
        batches.foreach { rows =>
          queries.foreach(_.add(rows))
          queries.foreach(_.settle())
        }
      finally queries.foreach(_.stop())
      queries.groupBy(_.name).foreach { case (name, sizes) =>
        sizes.foreach { query =>
          assertEquals(query.wrong, Nil, s"$name, ${query.size.name}")
          assertEquals(query.fired, sizes.head.fired, s"$name, ${query.size.name}")
        }
        assert(sizes.head.fired.size > 20, s"$name fired ${sizes.head.fired.size} panes")
      }
    }
  }
}

private object CacheSizeSuite {
  private val Second = 1000000L

  type Windows = DataFrame => DataFrame

  private def of(window: WindowSpec, options: WindowOptions = Asked.options): Windows = rows =>
    Asked.windowed(
      rows,
      window,
      Array(col("k")),
      options.withTime(col("ts")),
      Array(count(lit(1)).as("n"), sum("v").as("s"), max("v").as("m"))
    )

  private def lists(window: WindowSpec): Windows = rows =>
    Asked.windowed(
      rows,
      window,
      Array(col("k")),
      Asked.options.withTime(col("ts")),
      Array(
        count(lit(1)).as("n"),
        aggregate(collect_list("v"), lit(0L), _ + _).as("s"),
        max(col("v").cast("string")).cast("bigint").as("m")
      )
    )

  private val together: Windows = rows => {
    val parts = Seq(of(Asked.sliding(20 * Second, 5 * Second, 0)), of(Asked.tumbling(10 * Second, 0)))
    Facade.together(Array("a", "b"), parts.map(_(rows)).toArray)
  }

  /** The tiny size only in complete runs: the transcripts use it in each run. */
  val sizes: Seq[CacheSize] = if (CacheSize.isComplete) CacheSize.all else Seq(CacheSize.all.head, CacheSize.all.last)

  val windows: Seq[(String, Windows)] = Seq(
    "sliding" -> of(Asked.sliding(20 * Second, 5 * Second, 0)),
    "sliding, early" -> of(Asked.sliding(20 * Second, 5 * Second, 0), Asked.options.withEarlyCount(2)),
    "sliding, lists" -> lists(Asked.sliding(20 * Second, 5 * Second, 0)),
    "tumbling, early" -> of(Asked.tumbling(10 * Second, 0), Asked.options.withEarly(3 * Second, false)),
    "tumbling, empty" -> of(Asked.tumbling(10 * Second, 0), Asked.options.withEmpty(true)),
    "around" -> of(Asked.around(4 * Second, 2 * Second)),
    "session, lists" -> lists(Asked.session(4 * Second)),
    "together" -> together
  )

  /** Rows of twelve keys, in an order that differs from batch to batch, and finally one that closes all panes. */
  val batches: Seq[Seq[CachedRow]] = {
    val random = new scala.util.Random(52)
    val keyed = (0 until 4).map { batch =>
      random.shuffle(for (k <- 0L until 12L; _ <- 0 until 1 + random.nextInt(3)) yield {
        CachedRow(new Timestamp(1000L * (7 * batch + random.nextInt(9))), k, Iterator.fill(k.toInt)(10L).product)
      })
    }
    keyed ++ Seq(200, 201).map(second => Seq(CachedRow(new Timestamp(1000L * second), 0L, 1L)))
  }

  final class Running(
      val name: String,
      val size: CacheSize,
      spark: SparkSession,
      windows: Windows,
      checkpoint: String
  ) {
    private val source = MemoryStream[CachedRow](spark, 1)(Encoders.product[CachedRow])
    private val rows = mutable.ArrayBuffer.empty[Row]
    private var settled = -1L
    // Early firings also follow the wall clock, which is constant here.
    private val query: ClockedQuery = spark.withActive {
      val panes = windows(source.toDF().withWatermark("ts", "0 seconds"))
      Facade.startClocked(panes, checkpoint, "append", startMs = 0L, drain = false)
    }

    def add(batch: Seq[CachedRow]): Unit = { source.addData(batch); () }

    def settle(): Unit = {
      query.advanceMs(0)
      query.settle()
      rows ++= query.since(settled).collect()
      settled = query.lastBatch
    }

    def stop(): Unit = query.stop()

    def fired: Seq[String] = rows.map(_.toString).sorted.toSeq

    /** Panes with rows of other keys. */
    def wrong: Seq[Row] = rows.toSeq.filterNot { row =>
      val value = Iterator.fill(row.getAs[Long]("k").toInt)(10L).product
      val n = row.getAs[Long]("n")
      n == 0 || (row.getAs[Long]("s") == n * value && row.getAs[Long]("m") == value)
    }
  }
}

final case class CachedRow(ts: Timestamp, k: Long, v: Long)
