package org.apache.spark.sql.mullion.state

import java.util.{Collections, LinkedHashMap, Map => JavaMap, UUID}

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.util.SerializableConfiguration

/** The Hadoop settings that an operator's tasks open their state with, sent to the executors once for each run of a
  * query: no batch changes them, and to send them takes some milliseconds of each.
  */
private[mullion] object SettingsOfRun {
  type Settings = Broadcast[SerializableConfiguration]

  // How many runs are known: what another needs after that is sent again.
  private val Known = 64

  private val sent = Collections.synchronizedMap(new LinkedHashMap[UUID, Settings](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JavaMap.Entry[UUID, Settings]): Boolean = size > Known
  })

  def apply(run: UUID, session: SparkSession): Settings = sent.computeIfAbsent(
    run,
    _ => session.sparkContext.broadcast(new SerializableConfiguration(session.sessionState.newHadoopConf()))
  )
}
