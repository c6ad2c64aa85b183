package org.apache.spark.sql.mullion.state.store

import java.time.Duration

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.util.ShutdownHookManager

/** Has Spark close the stores that are still open when the JVM ends, once its context has stopped.
  *
  * Spark closes the stores of a query that has ended with its next maintenance, a minute later, and none when the JVM
  * ends. RocksDB may be compacting then, and what it logs goes to Java. A JVM that ends lets no thread in any more, and
  * RocksDB's own end waits for its threads, so the process would stay for ever:
  *
  * {{{
  *   JVM       ends: no thread may call Java - RocksDB's end waits for compaction
  *   RocksDB   compacts ............... logs: waits for the JVM
  * }}}
  */
private[store] object ClosedAtExit extends Logging {
  // After Spark's context, which ends the tasks that use stores, and before the folders that stores lie in are removed.
  private val Priority =
    (ShutdownHookManager.SPARK_CONTEXT_SHUTDOWN_PRIORITY + ShutdownHookManager.TEMP_DIR_SHUTDOWN_PRIORITY) / 2

  // A task that does not end keeps its store. Then the process ends as it did, and not much later.
  private val patience = Duration.ofSeconds(10)

  private lazy val hook: AnyRef = ShutdownHookManager.addShutdownHook(Priority)(() => closeAll())

  /** From now on. */
  def begin(): Unit = {
    hook
    ()
  }

  private[store] def closeAll(): Unit = {
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
