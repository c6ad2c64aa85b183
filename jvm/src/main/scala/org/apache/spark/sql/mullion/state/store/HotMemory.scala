package org.apache.spark.sql.mullion.state.store

import java.util.concurrent.atomic.{AtomicInteger, AtomicLong, AtomicReference}

import scala.reflect.ClassTag

import org.apache.spark.{SparkConf, SparkEnv}
import org.apache.spark.internal.config.MEMORY_STORAGE_FRACTION
import org.apache.spark.memory.MemoryMode
import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.execution.streaming.state.StateStoreConf
import org.apache.spark.storage.{StorageLevel, StreamBlockId}
import org.apache.spark.util.KnownSizeEstimation

import dev.mullion.MullionException

/** The memory of an executor that records of state in RocksDB may take besides: whoever wants some acquires it first,
  * and may be refused.
  *
  * {{{
  *   limit     all partitions of the executor together      spark.sql.streaming.stateStore.mullion.hotBytes
  *   Spark     storage memory, as cached data has it: a task's own while it works, a block of the block manager
  *             between tasks, which other work may take back
  * }}}
  */
private[state] object HotMemory {
  val Setting = "spark.sql.streaming.stateStore.mullion.hotBytes"

  private val taken = new AtomicLong
  private val blocks = new AtomicInteger

  /** What all partitions of this executor take together, in bytes. */
  def inUse: Long = taken.get

  /** What they may take together, in bytes: what is said, but no more than what Spark keeps for storage whatever else
    * runs, for a task that works holds it fast; if nothing is said a fifth of the heap, or three quarters of that.
    */
  def limit(conf: StateStoreConf): Long = {
    val kept = Option(SparkEnv.get).fold(Long.MaxValue)(keptForStorage)
    val said = conf.sqlConfs.get(Setting).map(bytesOf)
    Math.min(kept, said.getOrElse(Math.min(Runtime.getRuntime.maxMemory / 5, kept / 4 * 3)))
  }

  /** The bytes that a setting says. */
  def bytesOf(said: String): Long = {
    def refused = MullionException.invalid(
      s"$Setting=$said is not a number of bytes: say how much of an executor's memory the records of state in RocksDB " +
        "may take besides, such as '512m', or 0 for none (it is a fifth of the heap if not said)."
    )
    val bytes =
      try JavaUtils.byteStringAsBytes(said.trim)
      catch { case _: IllegalArgumentException => throw refused }
    if (bytes < 0) throw refused
    bytes
  }

  private def keptForStorage(env: SparkEnv): Long = {
    val manager = env.memoryManager
    // Of what storage and execution share.
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

  /** The bytes that one partition has acquired, while a task works on it.
    *
    * @param limit
    *   what all partitions of the executor may have together
    */
  final class Share private[HotMemory] (limit: Long, env: Option[SparkEnv]) {
    private var acquired = 0L
    private val id = env.map(_ => StreamBlockId(NoStream, blocks.incrementAndGet().toLong))

    /** How many it has. */
    def bytes: Long = acquired

    /** How many it may have, if nobody else acquires any. */
    def room: Long = {
      val ofSpark = env.fold(Long.MaxValue) { e =>
        val manager = e.memoryManager
        manager.synchronized(manager.maxOnHeapStorageMemory - manager.onHeapStorageMemoryUsed)
      }
      acquired + Math.max(0L, Math.min(limit - taken.get, ofSpark))
    }

    /** Acquires what is missing to so many bytes, and some more so that it need not be asked often; whether it has
      * them.
      */
    def covers(bytes: Long): Boolean = bytes <= acquired || {
      val missing = bytes - acquired
      add(missing + Math.max(Step, acquired / 8)) || add(missing)
    }

    private def add(more: Long): Boolean = acquire(more, limit) && {
      val isGiven = env.zip(id).forall { case (e, block) =>
        e.memoryManager.acquireStorageMemory(block, more, MemoryMode.ON_HEAP)
      }
      if (isGiven) acquired += more else HotMemory.release(more, limit)
      isGiven
    }

    /** Gives back all that is more than so many bytes. */
    def shrink(bytes: Long): Unit = if (bytes < acquired) {
      val less = acquired - bytes
      acquired = bytes
      env.foreach(_.memoryManager.releaseStorageMemory(less, MemoryMode.ON_HEAP))
      HotMemory.release(less, limit)
    }

    /** Hands over what it has to a block that stays when the task has ended; none if there is no room for it. */
    def block[T <: AnyRef](value: T, bytes: Long, evicted: Block[T] => Unit): Option[Block[T]] = {
      val isCovered = covers(bytes)
      shrink(if (isCovered) bytes else 0L)
      env.foreach(_.memoryManager.releaseStorageMemory(acquired, MemoryMode.ON_HEAP))
      acquired = 0L
      Option.when(isCovered)(new Block(value, bytes, limit, env, evicted))
    }

    private[HotMemory] def takeOver(bytes: Long): Boolean = {
      val isGiven = env.zip(id).forall { case (e, block) =>
        e.memoryManager.acquireStorageMemory(block, bytes, MemoryMode.ON_HEAP)
      }
      if (isGiven) acquired = bytes else HotMemory.release(bytes, limit)
      isGiven
    }
  }

  object Share {
    def apply(limit: Long): Share = new Share(limit, Option(SparkEnv.get))

    /** For a look from outside of a query, which takes what it takes and is not counted. */
    def unlimited: Share = new Share(Unlimited, None)
  }

  /** What stays in memory between tasks, as a block that Spark may take back.
    *
    * @param evicted
    *   told that it is gone, by whatever thread; the bytes are its again whose the block was
    */
  final class Block[T <: AnyRef] private[HotMemory] (
      val value: T,
      val bytes: Long,
      limit: Long,
      env: Option[SparkEnv],
      evicted: Block[T] => Unit
  ) extends KnownSizeEstimation
      with AutoCloseable {
    private val id = StreamBlockId(NoStream, blocks.incrementAndGet().toLong)

    override def estimatedSize: Long = bytes

    /** Called by Spark's store of blocks, whoever has it removed. */
    override def close(): Unit = evicted(this)

    /** Has Spark know of it; whether it had room. */
    def put(): Boolean = env.forall { e =>
      e.blockManager.putSingle(id, this, StorageLevel.MEMORY_ONLY, tellMaster = false)(ClassTag(getClass))
    }

    private def remove(): Unit = env.foreach(_.blockManager.removeBlock(id, tellMaster = false))

    /** Takes it out, for a task to work on; what the task has of memory then, none if that was taken in between. The
      * caller has seen to it that `evicted` does nothing any more.
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

    /** Gives it up; the caller has seen to it that `evicted` does nothing any more. */
    def drop(): Unit = {
      remove()
      freed()
    }

    /** Says that its bytes are nobody's any more. */
    def freed(): Unit = HotMemory.release(bytes, limit)
  }

  /** Holds at most one value between tasks, in a block. */
  final class Slot[T <: AnyRef] {
    private val held = new AtomicReference(Option.empty[Block[T]])
    @volatile private var isClosed = false

    def value: Option[T] = held.get.map(_.value)

    /** Puts a value in the place of the one before, with the memory that a task has acquired; whether there was room.
      */
    def put(value: T, bytes: Long, share: Share): Boolean = {
      val block = share.block(value, bytes, evicted)
      // Another attempt of the task may have put its own meanwhile.
      held.getAndSet(block).foreach(_.drop())
      val isHeld = block.exists(made => !isClosed && made.put())
      if (!isHeld && held.compareAndSet(block, None)) block.foreach(_.freed())
      isHeld
    }

    private def evicted(block: Block[T]): Unit = {
      val was = held.get
      if (was.contains(block) && held.compareAndSet(was, None)) block.freed()
    }

    /** Takes the value out, with its memory, for a task to work on. */
    def take(): Option[(T, Share)] = for {
      block <- held.getAndSet(None)
      share <- block.take()
    } yield block.value -> share

    /** Frees the value. */
    def drop(): Unit = held.getAndSet(None).foreach(_.drop())

    /** Frees the value, and holds none from here on. */
    def close(): Unit = {
      isClosed = true
      drop()
    }
  }

  // Blocks of receivers have small numbers.
  private final val NoStream = Int.MaxValue

  private final val Unlimited = Long.MaxValue

  // What is acquired at least.
  private final val Step = 64L * 1024
}
