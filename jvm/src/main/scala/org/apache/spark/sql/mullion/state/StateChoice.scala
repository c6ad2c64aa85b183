package org.apache.spark.sql.mullion.state

import org.apache.spark.sql.mullion.state.store.{HotRocksDbProvider, MemoryStateStoreProvider}

import dev.mullion.MullionException

/** Where panes are kept while they are open. */
sealed abstract class StateChoice(val name: String, val providerClass: String) {
  override def toString: String = s"state in $name"
}

object StateChoice {
  private val providers = "org.apache.spark.sql.execution.streaming.state"

  case object RocksDb extends StateChoice("rocksdb", classOf[HotRocksDbProvider].getName)

  /** Spark's HDFS-backed store: all state in the memory of the executors, with a log beside it. */
  case object Hdfs extends StateChoice("hdfs", s"$providers.HDFSBackedStateStoreProvider")

  /** In the memory of the executors, with a snapshot every so many batches: fast, and to be recovered by hand. */
  case object Memory extends StateChoice("memory", classOf[MemoryStateStoreProvider].getName)

  def all: Seq[StateChoice] = Seq(RocksDb, Hdfs, Memory)

  def named(name: String): StateChoice = all
    .find(_.name == name)
    .getOrElse(
      throw MullionException.invalid(s"state='$name' is not one of ${all.map(c => s"'${c.name}'").mkString(", ")}.")
    )
}
