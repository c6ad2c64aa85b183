package org.apache.spark.sql.mullion.operator

import java.nio.file.Path

import scala.util.{Random, Try}

import org.apache.spark.TaskContext
import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolder}
import org.apache.spark.sql.streaming.{StreamingQueryProgress, Trigger}
import org.apache.spark.sql.{functions => F, DataFrame, Row}

import dev.mullion.windows.spec.WindowSpec
import dev.mullion.{Asked, MullionExtensions}

/** `foreachBatch` functions with several actions on a batch: the operator runs once for all of them. */
class SeveralActionsSuite extends SparkSuite {
  import SeveralActionsSuite._

  private val seed = sys.env.get("MULLION_TEST_SEED").fold(7L)(_.toLong)

  override protected def settings: Seq[(String, String)] = Seq(
    // A task has three attempts.
    "spark.master" -> "local[2,3]",
    "spark.sql.extensions" -> classOf[MullionExtensions].getName,
    "spark.sql.streaming.stateStore.mullion.expireRows" -> "true"
  )

  // An opaque user function that is always true.
  private val any = F.udf((_: Long) => true)

  /** The way of a batch's rows to the operator. */
  private val plans: Seq[(String, DataFrame => DataFrame, DataFrame => DataFrame)] = Seq(
    ("one task for all partitions", identity, identity),
    ("a task for each partition", identity, _.where(any(F.col("n")))),
    ("a shuffle", _.repartition(3), identity)
  )

  for ((plan, before, after) <- plans)
    test(s"the operator works once for a batch, whatever actions run on it: $plan (seed $seed)") {
      withInput { input =>
        val one = run(input, once, before, after)
        val several = run(input, eachWay, before, after)
        assertEquals(several.panes, one.panes)
        assertEquals(several.counts, one.counts)
        assert(one.panes.nonEmpty)
        assertEquals(several.returned, several.panes.length.toLong)
      }
    }

  for (
    (what, window, late) <- Seq(
      ("sessions", Asked.session(3000000L), "drop"),
      ("windows that overlap", Asked.sliding(20000000L, 5000000L, 0), "drop"),
      ("emitted late rows", Asked.tumbling(10000000L, 0), "emit")
    )
  ) test(s"an action that stops before the last row leaves nothing to the next one: $what (seed $seed)") {
    withInput { input =>
      val one = run(input, once, window = window, late = late)
      val several = run(input, isEmptyFirst, window = window, late = late)
      assertEquals(several.panes, one.panes)
      assertEquals(several.counts, one.counts)
      assertEquals(several.returned, several.panes.length.toLong)
    }
  }

  for (hotBytes <- Seq("0", "2k"))
    test(s"without room for the rows each action has them made: $hotBytes in memory (seed $seed)") {
      withInput { input =>
        val one = run(input, once)
        val several = withSetting(HotBytes -> hotBytes)(run(input, eachWay))
        assertEquals(several.panes, one.panes)
        assertEquals(several.stateCounts, one.stateCounts)
        assert(several.returned > several.panes.length)
      }
    }

  test(
    s"the rows of an attempt that failed are made again, those of the one that did not are returned again (seed $seed)"
  ) {
    withInput { input =>
      val one = run(input, once)
      val again = run(
        input,
        (batch, _) => {
          val failing = batch.rdd.mapPartitions { rows =>
            val all = rows.toList
            if (TaskContext.get().attemptNumber() == 0) throw new IllegalStateException("an attempt of a task")
            all.iterator
          }
          val first = failing.collect().toSeq
          val second = batch.collect().toSeq
          assertEquals(second.map(_.toString).sorted, first.map(_.toString).sorted)
          second
        }
      )
      assertEquals(again.panes, one.panes)
      assertEquals(again.counts, one.counts)
      assertEquals(again.returned, again.panes.length.toLong)
    }
  }

  test(s"a function may continue after an action that failed (seed $seed)") {
    withInput { input =>
      val one = run(input, once)
      val again = run(
        input,
        (batch, _) => {
          assert(
            Try(batch.rdd.map[Int](_ => throw new IllegalStateException("an action")).count()).isFailure ==
              !batch.isEmpty
          )
          batch.collect().toSeq
        }
      )
      assertEquals(again.panes, one.panes)
      assertEquals(again.counts, one.counts)
    }
  }

  test(s"windows of windows: the rows are those of the last operator (seed $seed)") {
    withInput { input =>
      def again(panes: DataFrame) = Asked.windowed(
        panes.withColumn("at", F.window_time(F.col("window"))),
        Asked.tumbling(60000000L, 0),
        Array(F.col("key")),
        Asked.options.withTime(F.col("at")),
        Array(F.sum("n").as("n"))
      )
      val one = run(input, once, after = again)
      assertEquals(run(input, isEmptyFirst, after = again).panes, one.panes)
      assert(one.panes.nonEmpty)
    }
  }

  test(s"a query continues from the commit of several actions (seed $seed)") {
    TemporaryFolder.use { folder =>
      def parts(name: String, act: Act) = batches.grouped(2).toSeq.flatMap { two =>
        two.foreach(write(folder.resolve(s"$name input"), _))
        runAt(folder.resolve(s"$name input"), folder.resolve(name), act).panes
      }
      assertEquals(parts("several", eachWay), parts("one", once))
    }
  }

  private def batches: Seq[Seq[Reading]] = {
    val random = new Random(seed)
    Seq.tabulate(7) { i =>
      Seq.fill(60)(Reading(i * 8L + random.nextInt(30) - 10, s"key ${random.nextInt(30)}", random.nextLong() % 1000))
    }
  }

  private def withInput(body: Path => Unit): Unit = TemporaryFolder.use { folder =>
    batches.foreach(write(folder, _))
    body(folder)
  }

  private def withSetting[T](setting: (String, String))(body: => T): T = {
    spark.conf.set(setting._1, setting._2)
    try body
    finally spark.conf.unset(setting._1)
  }

  private def write(folder: Path, rows: Seq[Reading]): Unit = spark
    .createDataFrame(rows)
    .select(F.timestamp_seconds(F.col("second")).as("ts"), F.col("key"), F.col("value"))
    .repartition(1)
    .write
    .mode("append")
    .parquet(folder.toString)

  private def run(
      input: Path,
      act: Act,
      before: DataFrame => DataFrame = identity,
      after: DataFrame => DataFrame = identity,
      window: WindowSpec = Asked.tumbling(10000000L, 0),
      late: String = "drop"
  ): Run = TemporaryFolder.use { folder =>
    runAt(input, folder.resolve("checkpoint"), act, before, after, window, late)
  }

  /** The output of a query, batch by batch, and the number of rows that its first operator returned. */
  private def runAt(
      input: Path,
      checkpoint: Path,
      act: Act,
      before: DataFrame => DataFrame = identity,
      after: DataFrame => DataFrame = identity,
      window: WindowSpec = Asked.tumbling(10000000L, 0),
      late: String = "drop"
  ): Run = {
    val rows = spark.readStream
      .schema("ts timestamp, key string, value bigint")
      .option("maxFilesPerTrigger", "1")
      .parquet(input.toString)
    val panes = Asked.windowed(
      before(rows).withWatermark("ts", "5 seconds"),
      window,
      Array(F.col("key")),
      Asked.options.withTime(F.col("ts")).withLate(late),
      Array(F.count("*").as("n"), F.sum("value").as("total"))
    )
    val results = List.newBuilder[String]
    var returned = 0L
    var error = Option.empty[Throwable]
    val query = after(panes).writeStream
      .foreachBatch { (batch: DataFrame, number: Long) =>
        // The query that fails shows the error of the test.
        try {
          results ++= act(batch, number).map(row => s"$number: $row").sorted
          val operators = lastPlan(spark.streams.active.head).collect { case operator: WindowExec => operator }
          returned += operators.last.metrics("numOutputRows").value
        } catch { case failed: Throwable => error = Some(failed); throw failed }
        ()
      }
      .option("checkpointLocation", checkpoint.toString)
      .trigger(Trigger.AvailableNow())
      .start()
    val ended = Try(query.awaitTermination())
    error.foreach(throw _)
    ended.get
    Run(results.result(), returned, query.recentProgress.toSeq)
  }
}

private object SeveralActionsSuite {
  val HotBytes = "spark.sql.streaming.stateStore.mullion.hotBytes"

  final case class Reading(second: Long, key: String, value: Long)

  /** The rows of a batch, by its number, and the actions before. */
  type Act = (DataFrame, Long) => Seq[Row]

  val once: Act = (batch, _) => batch.collect().toSeq
  val isEmptyFirst: Act = (batch, number) => if (batch.isEmpty) Nil else once(batch, number)

  /** Each batch in another way. */
  val eachWay: Act = (batch, number) =>
    number % 7 match {
      case 0 =>
        batch.count()
        once(batch, number)
      case 1 => isEmptyFirst(batch, number)
      case 2 =>
        batch.take(1)
        once(batch, number)
      case 3 =>
        val isFirst = F.col("key") < "key 2"
        batch.where(isFirst).collect().toSeq ++ batch.where(!isFirst).collect().toSeq
      case 4 =>
        batch.limit(3).collect()
        batch.count()
        once(batch, number)
      case 5 =>
        batch.persist()
        try isEmptyFirst(batch, number)
        finally { batch.unpersist(); () }
      case _ => isEmptyFirst(batch, number)
    }

  final case class Run(panes: List[String], returned: Long, progress: Seq[StreamingQueryProgress]) {

    /** All counts of a batch, without times and sizes. */
    def counts: Seq[Seq[(String, Any)]] = progress.map { batch =>
      val operator = batch.stateOperators.head
      Seq[(String, Any)](
        "batch" -> batch.batchId,
        "total" -> operator.numRowsTotal,
        "updated" -> operator.numRowsUpdated,
        "removed" -> operator.numRowsRemoved,
        "dropped" -> operator.numRowsDroppedByWatermark
      ) ++ Seq("rowsLate", "panesOpen", "firingsClose", "stateRowsRead").map { name =>
        name -> operator.customMetrics.get(name)
      }
    }

    /** Without the reads, which depend on the memory, and the late rows, which nodes below the operator count in each
      * run.
      */
    def stateCounts: Seq[Seq[(String, Any)]] =
      counts.map(_.filterNot { case (name, _) => Set("stateRowsRead", "rowsLate", "dropped")(name) })
  }
}
