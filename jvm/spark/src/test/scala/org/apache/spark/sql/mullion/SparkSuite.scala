package org.apache.spark.sql.mullion

import java.lang.reflect.Modifier

import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.mullion.shim.Classic
import org.apache.spark.sql.streaming.StreamingQuery

import dev.mullion.MullionSuite
import dev.mullion.files.{LocalFiles, LocalFilesContext}

/** A suite with one small Spark session, from its first test to its last: no UI, no log, UTC, and local files without
  * child processes.
  */
trait SparkSuite extends MullionSuite {

  /** The number of parallel tasks. */
  protected def cores: Int = 1

  /** Additional or different settings of the session. */
  protected def settings: Seq[(String, String)] = Nil

  protected lazy val spark: SparkSession = {
    val builder = org.apache.spark.sql.SparkSession.builder().master(s"local[$cores]").appName(getClass.getSimpleName)
    (SparkSuite.small ++ settings).foreach { case (key, value) => builder.config(key, value) }
    Classic.session(builder.getOrCreate())
  }

  /** The plan of a query's last batch. */
  protected def lastPlan(query: StreamingQuery): SparkPlan = query match {
    case wrapper: StreamingQueryWrapper => wrapper.streamingQuery.lastExecution.executedPlan
    case other                          => fail(s"$other")
  }

  override def beforeAll(): Unit = {
    SparkSuite.deleteWithoutProcesses()
    spark.sparkContext.setLogLevel("OFF")
  }

  // Spark frees its stores with the next maintenance, and another suite of the JVM may count their objects.
  override def afterAll(): Unit = {
    StateStore.stop()
    spark.stop()
  }
}

object SparkSuite {

  /** Each RocksDB store deletes some folders with each batch, and Spark would start a process for each of them. */
  private def deleteWithoutProcesses(): Unit =
    classOf[JavaUtils].getFields
      .find(field => field.getName == "isUnix" && !Modifier.isFinal(field.getModifiers))
      .foreach(_.setBoolean(null, false))

  private val small = Seq(
    "spark.ui.enabled" -> "false",
    "spark.sql.shuffle.partitions" -> "2",
    "spark.sql.session.timeZone" -> "UTC",
    // The polling interval of a query without rows; one of files lists its folder each time.
    "spark.sql.streaming.pollingDelay" -> "100ms",
    // For its UI Spark would format each plan of each batch as a text twice as long.
    "spark.sql.ui.explainMode" -> "simple",
    // Otherwise each session has its own class loader in tasks, and Spark compiles its code once for each.
    "spark.sql.artifact.isolation.enabled" -> "false",
    "spark.hadoop.fs.file.impl" -> classOf[LocalFiles].getName,
    "spark.hadoop.fs.AbstractFileSystem.file.impl" -> classOf[LocalFilesContext].getName
  )
}
