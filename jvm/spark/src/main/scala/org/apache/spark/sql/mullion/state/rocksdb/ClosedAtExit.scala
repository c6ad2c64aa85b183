package org.apache.spark.sql.mullion.state.rocksdb

import java.time.Duration

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.util.ShutdownHookManager

/** Closes the open stores at JVM exit, after Spark's context has stopped.
  *
  * Spark closes the stores of an ended query with its next maintenance, a minute later, and none at JVM exit. If
  * RocksDB is compacting then, its log calls into Java, which an exiting JVM blocks. RocksDB waits for its threads, so
  * the process would never exit:
  *
  * {{{
  *   JVM       exits: no thread may call Java - RocksDB's end waits for compaction
  *   RocksDB   compacts ............... logs: waits for the JVM
  * }}}
  */
private[rocksdb] object ClosedAtExit extends Logging {
  // After Spark's context, which ends the tasks that use stores, and before the stores' folders are removed.
  private val Priority =
    (ShutdownHookManager.SPARK_CONTEXT_SHUTDOWN_PRIORITY + ShutdownHookManager.TEMP_DIR_SHUTDOWN_PRIORITY) / 2

  // A task that does not end keeps its store. The process then exits anyway after this time.
  private val patience = Duration.ofSeconds(10)

  private lazy val hook: AnyRef = ShutdownHookManager.addShutdownHook(Priority)(() => closeAll())

  /** Registers the hook. */
  def begin(): Unit = {
    hook
    ()
  }

  private[rocksdb] def closeAll(): Unit = {
    val closing = new Thread(
      () =>
        try StateStore.stop()
        catch { case NonFatal(e) => logWarning("State stores could not be closed before the JVM ends", e) },
      "state-stores-close-at-exit"
    )
    closing.setDaemon(true)
    closing.start()
    closing.join(patience.toMillis)
  }
}
