package org.apache.spark.sql.mullion.exec.partial

import org.apache.spark.TaskContext
import org.apache.spark.memory.{MemoryConsumer, SparkOutOfMemoryError, TaskMemoryManager}
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.memory.MemoryBlock

/** The groups of one task, without a Java object for any of them. A group is a record: a row of the aggregate's output,
  * as Spark writes one, and a word before it. Records lie one after the other in pages; an index finds them by the hash
  * of their keys, and goes on to its next place where one is taken.
  *
  * {{{
  *   index     [tag | page, word]  [0]  [tag | page, word] ...     open addressing, at most half of it taken
  *   page      [hash, bytes] null bits, keys ..., slice, buffers ..., texts of keys   [hash, bytes] ...
  * }}}
  *
  * All memory is Spark's, acquired before it is taken. Where Spark has no more, [[add]] has no room: the groups are
  * then handed on, page by page, and the table begins again. Generated code calls it.
  *
  * @param fields
  *   how many columns a record has
  * @param limit
  *   the most bytes that it acquires, whatever Spark has
  */
final class GroupTable(fields: Int, limit: Long, manager: TaskMemoryManager)
    extends MemoryConsumer(manager, GroupTable.LeastPage, manager.getTungstenMemoryMode) {
  import GroupTable._

  private[this] var index: MemoryBlock = _
  private[this] var indexBase: AnyRef = _
  private[this] var indexOffset = 0L
  private[this] var mask = 0
  private[this] var position = 0
  private[this] var growsAt = 0
  private[this] var count = 0

  // Page 0 is for the record that found no room: on the heap, and one at a time.
  private[this] var blocks = new Array[MemoryBlock](8)
  private[this] var bases = new Array[AnyRef](8)
  private[this] var offsets = new Array[Long](8)
  private[this] var filled = new Array[Int](8)
  private[this] var page = 0
  private[this] var word = 0
  private[this] var words = 0
  private[this] var pageBytes = FirstPage
  bases(0) = new Array[Long](fields + 2)
  offsets(0) = Platform.LONG_ARRAY_OFFSET.toLong

  private[this] val row = new UnsafeRow(fields)
  private[this] var handing = false
  private[this] var from = 0
  private[this] var fromWord = 0
  private[this] var early = 0L
  private[this] var peak = 0L

  private[this] val ahead = new Array[Long](Together)
  private[this] var touched = 0L

  makeIndex(FirstIndex)

  /** The first record that may be of a group with this hash, or 0. */
  def first(hash: Int): Long = {
    position = hash & mask
    probe(hash)
  }

  /** The next one after the one that was not, or 0. */
  def next(hash: Int): Long = {
    position = (position + 1) & mask
    probe(hash)
  }

  private[this] def probe(hash: Int): Long = {
    val tag = hash >>> TagShift
    var entry = at(position)
    while (entry != 0L && (entry >>> AddressBits).toInt != tag) {
      position = (position + 1) & mask
      entry = at(position)
    }
    entry & AddressMask
  }

  private[this] def at(position: Int): Long =
    if (mask == 0) 0L else Platform.getLong(indexBase, indexOffset + (position.toLong << 3))

  /** Reads what rows will need, so that it is in the processor's caches when they are added. The reads do not depend on
    * one another, and the processor waits for them together.
    *
    * @param rows
    *   rows of `width` words, each with its hash first
    */
  def touch(rows: Array[Long], width: Int, count: Int): Unit = if (this.count > Few) {
    var i = 0
    while (i < count) {
      ahead(i) = at(rows(i * width).toInt & mask) & AddressMask
      i += 1
    }
    var all = 0L
    i = 0
    while (i < count) {
      val page = (ahead(i) >>> WordBits).toInt
      val row = offsets(page) + ((ahead(i) & WordMask) << 3)
      all += Platform.getLong(bases(page), row) + Platform.getLong(bases(page), row + fields * 8L)
      i += 1
    }
    // Or the JVM would leave out reads that nobody wants.
    touched = all
  }

  /** In what a record lies: an array, or null outside the heap. */
  def base(record: Long): AnyRef = bases((record >>> WordBits).toInt)

  /** Where in that its row begins. */
  def offset(record: Long): Long = offsets((record >>> WordBits).toInt) + ((record & WordMask) << 3)

  /** A new record of a group that [[first]] and [[next]] did not find, or 0 if there is no room. The caller writes all
    * of its row.
    *
    * @param bytes
    *   the size of its row
    */
  def add(hash: Int, bytes: Int): Long =
    if (count >= growsAt && !grow()) 0L
    else if (word + (bytes >>> 3) + 1 > words && !turnPage(bytes + 8)) 0L
    else {
      val base = bases(page)
      Platform.putLong(base, offsets(page) + (word.toLong << 3), (hash.toLong << 32) | bytes)
      val record = (page.toLong << WordBits) | (word + 1)
      word += (bytes >>> 3) + 1
      count += 1
      enter(hash, record)
      record
    }

  /** A record of a row that found no room, which no other row is added to. */
  def alone(bytes: Int): Long = {
    if (bases(0).asInstanceOf[Array[Long]].length < bytes / 8 + 1) bases(0) = new Array[Long](bytes / 8 + 1)
    early += 1
    row.pointTo(bases(0), offsets(0) + 8L, bytes)
    Alone
  }

  /** The row of that record, the caller's to keep. */
  def aloneRow: UnsafeRow = row.copy()

  def isAlone(record: Long): Boolean = record == Alone

  /** Begins to hand its groups on.
    *
    * @param isEarly
    *   whether rows are still to come
    */
  def handOn(isEarly: Boolean): Unit = {
    if (isEarly) early += count
    if (page > 0) filled(page) = word
    // What is above needs memory too, for what it is handed.
    freeIndex()
    handing = true
    from = 1
    fromWord = 0
  }

  def isHandingOn: Boolean = handing

  /** Whether there is another group to hand on, which is then in [[current]] until the next is asked for. Pages are
    * given back as their groups have gone.
    */
  def advance(): Boolean = {
    while (from <= page && fromWord >= filled(from)) {
      freePage(blocks(from))
      blocks(from) = null
      bases(from) = null
      from += 1
      fromWord = 0
    }
    if (from > page) {
      handing = false
      page = 0
      word = 0
      words = 0
      count = 0
      false
    } else {
      val at = offsets(from) + (fromWord.toLong << 3)
      val bytes = Platform.getLong(bases(from), at).toInt
      row.pointTo(bases(from), at + 8, bytes)
      fromWord += (bytes >>> 3) + 1
      true
    }
  }

  def current: UnsafeRow = row

  /** Rows that were handed on before the task had read all its input. */
  def handedOnEarly: Long = early

  def peakBytes: Long = peak

  private def grow(): Boolean = {
    val size = if (mask == 0) FirstIndex else (mask + 1) * 2
    if (size <= LargestIndex && makeIndex(size)) true
    // It is slower when fuller, and still faster than to begin again.
    else if (growsAt < (mask + 1) / 8 * 7) {
      growsAt = (mask + 1) / 8 * 7
      true
    } else false
  }

  private def makeIndex(size: Int): Boolean = {
    val block = acquire(size * 8L)
    if (block eq null) false
    else {
      if (index ne null) freePage(index)
      index = block
      indexBase = block.getBaseObject
      indexOffset = block.getBaseOffset
      mask = size - 1
      growsAt = size / 2
      Platform.setMemory(indexBase, indexOffset, size * 8L, 0)
      if (page > 0) filled(page) = word
      var p = 1
      while (p <= page) {
        enterAll(p)
        p += 1
      }
      true
    }
  }

  private def enterAll(of: Int): Unit = {
    val (base, offset) = (bases(of), offsets(of))
    var at = 0
    while (at < filled(of)) {
      val header = Platform.getLong(base, offset + (at.toLong << 3))
      enter((header >>> 32).toInt, (of.toLong << WordBits) | (at + 1))
      at += (header.toInt >>> 3) + 1
    }
  }

  private def enter(hash: Int, record: Long): Unit = {
    var at = hash & mask
    while (Platform.getLong(indexBase, indexOffset + (at.toLong << 3)) != 0L) at = (at + 1) & mask
    Platform.putLong(
      indexBase,
      indexOffset + (at.toLong << 3),
      ((hash >>> TagShift).toLong << AddressBits) | record
    )
  }

  private def turnPage(needed: Int): Boolean = {
    var block = if (page + 1 >= MostPages) null else acquire(Math.max(pageBytes, needed.toLong))
    while ((block eq null) && pageBytes > FirstPage) {
      pageBytes /= 2
      block = acquire(Math.max(pageBytes, needed.toLong))
    }
    if (block eq null) false
    else {
      if (page > 0) filled(page) = word
      page += 1
      if (page == blocks.length) widen()
      blocks(page) = block
      bases(page) = block.getBaseObject
      offsets(page) = block.getBaseOffset
      words = Math.min(block.size() >>> 3, WordMask).toInt
      word = 0
      pageBytes = Math.min(pageBytes * 2, LargestPage)
      true
    }
  }

  private def widen(): Unit = {
    blocks = java.util.Arrays.copyOf(blocks, blocks.length * 2)
    bases = java.util.Arrays.copyOf(bases, bases.length * 2)
    offsets = java.util.Arrays.copyOf(offsets, offsets.length * 2)
    filled = java.util.Arrays.copyOf(filled, filled.length * 2)
  }

  /** Memory of Spark's, or null. */
  private def acquire(bytes: Long): MemoryBlock =
    if (getUsed + bytes > limit) null
    else {
      val block =
        try allocatePage(bytes)
        catch { case _: SparkOutOfMemoryError => null }
      peak = Math.max(peak, getUsed)
      block
    }

  private def freeIndex(): Unit = {
    if (index ne null) freePage(index)
    index = null
    indexBase = null
    mask = 0
    growsAt = 0
  }

  /** Gives back all memory. */
  def free(): Unit = {
    freeIndex()
    var p = 1
    while (p <= page) {
      if (blocks(p) ne null) freePage(blocks(p))
      blocks(p) = null
      bases(p) = null
      p += 1
    }
    page = 0
    handing = false
  }

  /** Groups are handed on by the task's own loop alone: whoever else needs memory takes it from others. */
  override def spill(size: Long, trigger: MemoryConsumer): Long = 0L
}

object GroupTable {
  // An entry of the index is 20 bits of the hash, 14 of a page, 30 of a word in it.
  private val WordBits = 30
  private val WordMask = (1L << WordBits) - 1
  private val AddressBits = 44
  private val AddressMask = (1L << AddressBits) - 1
  private val TagShift = 12
  private val MostPages = 1 << 13
  private val LargestIndex = 1 << 28

  private val Alone = 1L

  /** The most rows that [[GroupTable.touch]] takes. */
  val Together = 64

  // The groups that stay in the processor's caches of themselves.
  private val Few = 4096

  // Small at first: most micro-batches are.
  private val FirstIndex = 1 << 10
  private val LeastPage = 8L
  private val FirstPage = 64L << 10
  private val LargestPage = 4L << 20

  /** Makes the tables of tasks, for generated code. */
  final class Maker(fields: Int, limit: Long) extends Serializable {
    def make(): GroupTable = {
      val task = TaskContext.get()
      val table = new GroupTable(fields, limit, task.taskMemoryManager())
      task.addTaskCompletionListener[Unit](_ => table.free())
      table
    }
  }
}
