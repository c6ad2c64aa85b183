package org.apache.spark.sql.mullion.state.rocksdb

import java.util.concurrent.atomic.{AtomicInteger, AtomicLong, AtomicReference}

import scala.reflect.ClassTag

import org.apache.spark.internal.config.MEMORY_STORAGE_FRACTION
import org.apache.spark.memory.MemoryMode
import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.execution.streaming.state.StateStoreConf
import org.apache.spark.storage.{StorageLevel, StreamBlockId}
import org.apache.spark.util.KnownSizeEstimation
import org.apache.spark.{SparkConf, SparkEnv}

import dev.mullion.MullionException

/** The memory of an executor for cached state records. It must be acquired before use, which may fail.
  *
  * {{{
  *   limit     all partitions of the executor together      spark.sql.streaming.stateStore.mullion.hotBytes
  *   Spark     storage memory, like cached data: owned by a task while it runs, by an evictable block of the block
  *             manager between tasks
  * }}}
  */
private[state] object CacheMemory {
  val Setting = "spark.sql.streaming.stateStore.mullion.hotBytes"

  private val taken = new AtomicLong
  private val blocks = new AtomicInteger

  /** The memory of all partitions of this executor, in bytes. */
  def inUse: Long = taken.get

  /** The limit for all partitions, in bytes: the setting, but at most Spark's protected storage memory, because a
    * running task does not release it. The default is a fifth of the heap, or three quarters of the protected memory if
    * less.
    */
  def limit(conf: StateStoreConf): Long = {
    val protectedBytes = Option(SparkEnv.get).fold(Long.MaxValue)(keptForStorage)
    val setting = conf.sqlConfs.get(Setting).map(bytesOf)
    Math.min(protectedBytes, setting.getOrElse(Math.min(Runtime.getRuntime.maxMemory / 5, protectedBytes / 4 * 3)))
  }

  /** The number of bytes in a setting. */
  def bytesOf(setting: String): Long = {
    def refused = MullionException.invalid(
      s"$Setting=$setting is not a number of bytes: say how much of an executor's memory the records of state in RocksDB " +
        "may take besides, such as '512m', or 0 for none (a fifth of the heap by default)."
    )
    val bytes =
      try JavaUtils.byteStringAsBytes(setting.trim)
      catch { case _: IllegalArgumentException => throw refused }
    if (bytes < 0) throw refused
    bytes
  }

  private def keptForStorage(env: SparkEnv): Long = {
    val manager = env.memoryManager
    // Storage and execution share this memory.
    val shared = manager.synchronized(manager.maxOnHeapStorageMemory + manager.onHeapExecutionMemoryUsed)
    (shared * fractionOf(env.conf)).toLong
  }

  private def fractionOf(conf: SparkConf): Double = conf.get(MEMORY_STORAGE_FRACTION)

  private def acquire(bytes: Long, limit: Long): Boolean = limit == Unlimited || {
    val now = taken.addAndGet(bytes)
    val isWithin = now <= limit
    if (!isWithin) taken.addAndGet(-bytes)
    isWithin
  }

  private def release(bytes: Long, limit: Long): Unit = if (limit != Unlimited) { taken.addAndGet(-bytes); () }

  /** The memory that one partition has acquired, while a task works on it.
    *
    * @param limit
    *   for all partitions of the executor together
    */
  final class Share private[CacheMemory] (limit: Long, env: Option[SparkEnv]) {
    private var acquired = 0L
    private val id = env.map(_ => StreamBlockId(NoStream, blocks.incrementAndGet().toLong))

    /** The acquired bytes. */
    def bytes: Long = acquired

    /** The bytes that it could have if no other partition acquires any. */
    def room: Long = {
      val ofSpark = env.fold(Long.MaxValue) { e =>
        val manager = e.memoryManager
        manager.synchronized(manager.maxOnHeapStorageMemory - manager.onHeapStorageMemoryUsed)
      }
      acquired + Math.max(0L, Math.min(limit - taken.get, ofSpark))
    }

    /** Acquires memory up to a total of `bytes`, and some more to reduce the number of calls. Returns whether it
      * succeeded.
      */
    def covers(bytes: Long): Boolean = bytes <= acquired || {
      val missing = bytes - acquired
      add(missing + Math.max(Step, acquired / 8)) || add(missing)
    }

    private def add(more: Long): Boolean = acquire(more, limit) && {
      val isGiven = env.zip(id).forall { case (e, block) =>
        e.memoryManager.acquireStorageMemory(block, more, MemoryMode.ON_HEAP)
      }
      if (isGiven) acquired += more else CacheMemory.release(more, limit)
      isGiven
    }

    /** Releases memory above this number of bytes. */
    def shrink(bytes: Long): Unit = if (bytes < acquired) {
      val less = acquired - bytes
      acquired = bytes
      env.foreach(_.memoryManager.releaseStorageMemory(less, MemoryMode.ON_HEAP))
      CacheMemory.release(less, limit)
    }

    /** Moves its memory to a block that outlives the task; none if there is no room for it. */
    def block[T <: AnyRef](value: T, bytes: Long, evicted: Block[T] => Unit): Option[Block[T]] = {
      val isCovered = covers(bytes)
      shrink(if (isCovered) bytes else 0L)
      env.foreach(_.memoryManager.releaseStorageMemory(acquired, MemoryMode.ON_HEAP))
      acquired = 0L
      Option.when(isCovered)(new Block(value, bytes, limit, env, evicted))
    }

    private[CacheMemory] def takeOver(bytes: Long): Boolean = {
      val isGiven = env.zip(id).forall { case (e, block) =>
        e.memoryManager.acquireStorageMemory(block, bytes, MemoryMode.ON_HEAP)
      }
      if (isGiven) acquired = bytes else CacheMemory.release(bytes, limit)
      isGiven
    }
  }

  object Share {
    def apply(limit: Long): Share = new Share(limit, Option(SparkEnv.get))

    /** For inspection outside of a query, which is not limited. */
    def unlimited: Share = new Share(Unlimited, None)
  }

  /** A cached value between tasks, as a block that Spark may evict.
    *
    * @param evicted
    *   called on eviction, by any thread; the owner of the block then has the bytes again
    */
  final class Block[T <: AnyRef] private[CacheMemory] (
      val value: T,
      val bytes: Long,
      limit: Long,
      env: Option[SparkEnv],
      evicted: Block[T] => Unit
  ) extends KnownSizeEstimation
      with AutoCloseable {
    private val id = StreamBlockId(NoStream, blocks.incrementAndGet().toLong)

    override def estimatedSize: Long = bytes

    /** Called by Spark's block store on any removal. */
    override def close(): Unit = evicted(this)

    /** Registers with Spark. Returns whether there before room. */
    def put(): Boolean = env.forall { e =>
      e.blockManager.putSingle(id, this, StorageLevel.MEMORY_ONLY, tellMaster = false)(ClassTag(getClass))
    }

    private def remove(): Unit = env.foreach(_.blockManager.removeBlock(id, tellMaster = false))

    /** Takes the value back for a task. Returns the task's memory, or none if the block before evicted in between. The
      * caller ensures that `evicted` does nothing any more.
      */
    def take(): Option[Share] = {
      val share = new Share(limit, env)
      val isGiven = env.fold(share.takeOver(bytes)) { e =>
        e.memoryManager.synchronized {
          remove()
          share.takeOver(bytes)
        }
      }
      Option.when(isGiven)(share)
    }

    /** Removes the block; the caller ensures that `evicted` does nothing any more. */
    def drop(): Unit = {
      remove()
      freed()
    }

    /** Releases its bytes. */
    def freed(): Unit = CacheMemory.release(bytes, limit)
  }

  /** A holder for at most one value between tasks, in a block. */
  final class Slot[T <: AnyRef] {
    private val current = new AtomicReference(Option.empty[Block[T]])
    @volatile private var isClosed = false

    def value: Option[T] = current.get.map(_.value)

    /** Replaces the value, with the memory that a task has acquired. Returns whether there before room. */
    def put(value: T, bytes: Long, share: Share): Boolean = {
      val block = share.block(value, bytes, evicted)
      // Another attempt of the task may have put its own value meanwhile.
      current.getAndSet(block).foreach(_.drop())
      val isHeld = block.exists(made => !isClosed && made.put())
      if (!isHeld && current.compareAndSet(block, None)) block.foreach(_.freed())
      isHeld
    }

    private def evicted(block: Block[T]): Unit = {
      val before = current.get
      if (before.contains(block) && current.compareAndSet(before, None)) block.freed()
    }

    /** Takes the value and its memory, for a task. */
    def take(): Option[(T, Share)] = for {
      block <- current.getAndSet(None)
      share <- block.take()
    } yield block.value -> share

    /** Frees the value. */
    def drop(): Unit = current.getAndSet(None).foreach(_.drop())

    /** Frees the value, and accepts no other. */
    def close(): Unit = {
      isClosed = true
      drop()
    }
  }

  // Blocks of receivers have small numbers.
  private final val NoStream = Int.MaxValue

  private final val Unlimited = Long.MaxValue

  // The minimum that is acquired at once.
  private final val Step = 64L * 1024
}
