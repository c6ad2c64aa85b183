package org.apache.spark.sql.mullion.state

import java.util.{Collections, LinkedHashMap, Map => JavaMap, UUID}

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.util.SerializableConfiguration

/** Hadoop settings with which an operator's tasks open their state. They are settings to the executors once per run of
  * a query: no batch changes them, and sending them takes some milliseconds.
  */
private[mullion] object SettingsOfRun {
  type Settings = Broadcast[SerializableConfiguration]

  // The number of cached runs; settings of others are settings again.
  private val MaxRuns = 64

  private val settings = Collections.synchronizedMap(new LinkedHashMap[UUID, Settings](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JavaMap.Entry[UUID, Settings]): Boolean = size > MaxRuns
  })

  def apply(run: UUID, session: SparkSession): Settings = settings.computeIfAbsent(
    run,
    _ => session.sparkContext.broadcast(new SerializableConfiguration(session.sessionState.newHadoopConf()))
  )
}
