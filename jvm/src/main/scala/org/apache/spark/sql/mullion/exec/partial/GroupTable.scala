package org.apache.spark.sql.mullion.exec.partial

import org.apache.spark.TaskContext
import org.apache.spark.memory.{MemoryConsumer, MemoryMode, SparkOutOfMemoryError, TaskMemoryManager}
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.memory.MemoryBlock

/** The groups of one task, without a Java object for any of them. A group is a record: a row of the aggregate's output,
  * as Spark writes one, and a word before it. Records lie one after the other in pages; an index finds them by the hash
  * of their keys, and goes on to its next place where one is taken.
  *
  * {{{
  *   index     [tag | page, word]  [0]  [tag | page, word] ...     open addressing, at most half of it taken
  *   page      [hash, bytes] null bits, keys ..., slice, buffers ..., decimals, texts of keys   [hash, bytes] ...
  * }}}
  *
  * All memory is acquired from Spark before it is taken. Where Spark has no more, [[add]] has no room: the groups are
  * then handed on, page by page, and the table begins again. Generated code calls it.
  *
  * Pages are arrays of the heap, also where Spark's own are outside of it. What is read from an array the JVM may hold
  * in registers while it writes to others; of an address that is in the heap or not, it knows nothing.
  *
  * @param fields
  *   how many columns a record has
  * @param decimals
  *   which of them have two words more
  * @param limit
  *   the most bytes that it acquires, whatever Spark has
  */
final class GroupTable(fields: Int, decimals: Array[Int], limit: Long, manager: TaskMemoryManager)
    extends MemoryConsumer(manager, GroupTable.LeastPage, MemoryMode.ON_HEAP) {
  import GroupTable._

  private[this] val rowWords = GroupLayout.words(fields, decimals.length)
  private[this] val firstField = GroupLayout.words(fields, 0) - fields
  private[this] val hasPages = manager.getTungstenMemoryMode == MemoryMode.ON_HEAP

  private[this] var indexBlock: MemoryBlock = _
  private[this] var entries: Array[Long] = NoEntries
  private[this] var lastEntry = 0
  private[this] var growsAt = 0
  private[this] var count = 0

  // Page 0 is for the record that found no room: on the heap, and one at a time.
  private[this] var blocks = new Array[MemoryBlock](8)
  private[this] var arrays = new Array[Array[Long]](8)
  private[this] var filled = new Array[Int](8)
  private[this] var page = 0
  private[this] var word = 0
  private[this] var words = 0
  private[this] var pageBytes = FirstPage
  arrays(0) = new Array[Long](rowWords + 1)

  private[this] val handed = new UnsafeRow(fields)
  private[this] var handing = false
  private[this] var from = 0
  private[this] var fromWord = 0
  private[this] var early = 0L
  private[this] var peak = 0L

  private[this] val ahead = new Array[Long](Together)
  private[this] var touched = 0L

  makeIndex(FirstIndex)

  /** The index as it is until a record is added, for [[mask]] + 1 entries. An entry is 0, or 20 bits of a hash and a
    * record: those with a row's hash are at `hash & mask` and the places after it, up to the first 0.
    */
  def index: Array[Long] = entries

  def mask: Int = lastEntry

  /** The arrays that records lie in, as they are until a record is added: by `record >>> WordBits`. */
  def pages: Array[Array[Long]] = arrays

  /** How many rows are best added together: those whose groups the processor's first cache holds with all they need,
    * where groups do not stay in its caches of themselves.
    */
  def together: Int = if (count <= Few) Integer.MAX_VALUE else Together

  /** Reads what rows will need, so that it is in the processor's caches when they are added. The reads do not depend on
    * one another, and the processor waits for them together. Groups that are few stay there of themselves.
    *
    * @param hashes
    *   of rows, of which [[together]] at most are asked for
    */
  def touch(hashes: Array[Int], from: Int, until: Int): Unit = if (count > Few) {
    val index = entries
    val last = lastEntry
    var all = 0L
    var i = from
    while (i < until) {
      all += index(hashes(i) & last)
      i += 1
    }
    // Where another group has the place, the row's own is one of the next: they are in the caches by now.
    i = from
    while (i < until) {
      val hash = hashes(i)
      var at = hash & last
      var entry = index(at)
      while (entry != 0L && (entry >>> AddressBits).toInt != hash >>> TagShift) {
        at = (at + 1) & last
        entry = index(at)
      }
      ahead(i - from) = entry & AddressMask
      i += 1
    }
    i = 0
    while (i < until - from) {
      val page = arrays((ahead(i) >>> WordBits).toInt)
      val row = (ahead(i) & WordMask).toInt
      all += page(row) + page(row + rowWords - 1)
      i += 1
    }
    // Or the JVM would leave out reads that nobody wants.
    touched = all
  }

  /** A new record of a group that has none, or 0 if there is no room. The caller writes all of its row.
    *
    * @param bytes
    *   the size of its row
    */
  def add(hash: Int, bytes: Int): Long =
    if (count >= growsAt && !grow()) 0L
    else if (word + (bytes >>> 3) + 1 > words && !turnPage(bytes + 8)) 0L
    else {
      arrays(page)(word) = (hash.toLong << 32) | bytes
      val record = (page.toLong << WordBits) | (word + 1)
      word += (bytes >>> 3) + 1
      count += 1
      enter(hash, record)
      record
    }

  /** A record of a row that found no room, which no other row is added to. */
  def alone(bytes: Int): Long = {
    if (arrays(0).length < bytes / 8 + 1) arrays(0) = new Array[Long](bytes / 8 + 1)
    early += 1
    handed.pointTo(arrays(0), GroupBytes.placeOf(1), bytes)
    Alone
  }

  /** The row of that record, the caller's to keep. */
  def aloneRow: UnsafeRow = {
    writeDecimals(arrays(0), 1)
    handed.copy()
  }

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

  /** True if there is another group to hand on, which is then in [[current]] until the next is asked for. Pages are
    * given back as their groups have gone.
    */
  def advance(): Boolean = {
    while (from <= page && fromWord >= filled(from)) {
      giveBack(from)
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
      val bytes = arrays(from)(fromWord).toInt
      handed.pointTo(arrays(from), GroupBytes.placeOf(fromWord + 1), bytes)
      writeDecimals(arrays(from), fromWord + 1)
      fromWord += (bytes >>> 3) + 1
      true
    }
  }

  def current: UnsafeRow = handed

  /** Makes of the row in [[handed]] what Spark writes. */
  private def writeDecimals(page: Array[Long], row: Int): Unit = {
    var i = 0
    while (i < decimals.length) {
      val field = decimals(i)
      GroupDecimals.handOn(page, row, firstField + field, firstField + fields + i * 2, handed.isNullAt(field))
      i += 1
    }
  }

  /** Rows that were handed on before the task had read all its input. */
  def handedOnEarly: Long = early

  def peakBytes: Long = peak

  private def grow(): Boolean = {
    val size = indexAfter(lastEntry + 1)
    if (size <= LargestIndex && makeIndex(size)) true
    // It is slower when fuller, and still faster than to begin again.
    else if (growsAt < (lastEntry + 1) / 8 * 7) {
      growsAt = (lastEntry + 1) / 8 * 7
      true
    } else false
  }

  private def makeIndex(size: Int): Boolean = {
    val block = acquire(size * 8L)
    if (block eq null) false
    else {
      if (indexBlock ne null) release(indexBlock)
      indexBlock = block
      entries = longsOf(block)
      lastEntry = size - 1
      growsAt = if (size <= SparseIndex) size / 4 else size / 2
      java.util.Arrays.fill(entries, 0, size, 0L)
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
    val records = arrays(of)
    var at = 0
    while (at < filled(of)) {
      val header = records(at)
      enter((header >>> 32).toInt, (of.toLong << WordBits) | (at + 1))
      at += (header.toInt >>> 3) + 1
    }
  }

  private def enter(hash: Int, record: Long): Unit = {
    var at = hash & lastEntry
    while (entries(at) != 0L) at = (at + 1) & lastEntry
    entries(at) = ((hash >>> TagShift).toLong << AddressBits) | record
  }

  private def turnPage(needed: Int): Boolean = {
    var block = if (page + 1 >= MostPages) null else acquirePage(needed)
    while ((block eq null) && pageBytes > FirstPage) {
      pageBytes /= 2
      block = acquirePage(needed)
    }
    if (block eq null) false
    else {
      if (page > 0) filled(page) = word
      page += 1
      if (page == blocks.length) widen()
      blocks(page) = block
      arrays(page) = longsOf(block)
      words = Math.min(block.size() >>> 3, WordMask).toInt
      word = 0
      pageBytes = pageAfter(pageBytes, getUsed)
      true
    }
  }

  private def acquirePage(needed: Int): MemoryBlock =
    acquire(Math.max(pageBytes - Platform.LONG_ARRAY_OFFSET, needed.toLong))

  private def widen(): Unit = {
    blocks = java.util.Arrays.copyOf(blocks, blocks.length * 2)
    arrays = java.util.Arrays.copyOf(arrays, arrays.length * 2)
    filled = java.util.Arrays.copyOf(filled, filled.length * 2)
  }

  /** Memory of Spark's, or null. */
  private def acquire(bytes: Long): MemoryBlock =
    if (getUsed + bytes > limit) null
    else {
      val block =
        if (hasPages)
          try allocatePage(bytes)
          catch { case _: SparkOutOfMemoryError => null }
        else ofHeap((bytes + 7) / 8 * 8)
      peak = Math.max(peak, getUsed)
      block
    }

  /** The same where Spark's pages are outside the heap. */
  private def ofHeap(bytes: Long): MemoryBlock = {
    val got = acquireMemory(bytes)
    if (got == bytes) MemoryBlock.fromLongArray(new Array[Long](Math.toIntExact(bytes / 8)))
    else {
      if (got > 0) freeMemory(got)
      null
    }
  }

  private def release(block: MemoryBlock): Unit = if (hasPages) freePage(block) else freeMemory(block.size())

  private def longsOf(block: MemoryBlock): Array[Long] = block.getBaseObject.asInstanceOf[Array[Long]]

  private def giveBack(page: Int): Unit = {
    if (blocks(page) ne null) release(blocks(page))
    blocks(page) = null
    arrays(page) = null
  }

  private def freeIndex(): Unit = {
    if (indexBlock ne null) release(indexBlock)
    indexBlock = null
    entries = NoEntries
    lastEntry = 0
    growsAt = 0
  }

  /** Gives back all memory. */
  def free(): Unit = {
    freeIndex()
    var p = 1
    while (p <= page) {
      giveBack(p)
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
  private[partial] val WordBits = 30
  private[partial] val WordMask = (1L << WordBits) - 1
  private[partial] val AddressBits = 44
  private[partial] val AddressMask = (1L << AddressBits) - 1
  private[partial] val TagShift = 12
  private val MostPages = 1 << 13
  private val LargestIndex = 1 << 28

  private val NoEntries = Array(0L)

  private val Alone = 1L

  // More than a processor waits for at a time.
  private val Together = 64

  // The groups that stay in the processor's caches of themselves.
  private val Few = 4096

  // Small at first: most micro-batches are.
  private val FirstIndex = 1 << 10

  // Up to here a quarter of it is taken, for it stays in the processor's caches all the same.
  private val SparseIndex = 1 << 14
  private val LeastPage = 8L

  // The collector puts arrays that are more than half of one of its regions, of which the smallest have a megabyte, into
  // regions of their own. It need not copy those, but the last of an array's is empty where the array ends. So pages are
  // well below half a region, or with their header whole ones, which Spark keeps for the next table if they are large.
  private val FirstPage = 64L << 10
  private val LargestInEden = 256L << 10
  private val OneRegion = 1L << 20
  private val TwoRegions = 2L << 20
  private val ManyRegions = 4L << 20

  private def pageAfter(bytes: Long, used: Long): Long =
    if (bytes < LargestInEden) bytes * 2 else if (used < ManyRegions) OneRegion else TwoRegions

  // An index of half a megabyte would have a region too, and Spark keeps none of less than a megabyte.
  private val BelowHalf = 1 << 15
  private val LeastKept = 1 << 17

  /** How many entries an index has after one of so many. */
  private def indexAfter(entries: Int): Int =
    if (entries == 1) FirstIndex else if (entries == BelowHalf) LeastKept else entries * 2

  // What comes after the table in its task needs memory for the rows that it hands on, before its own is given back: a
  // sort where there is no shuffle between, or the shuffle. Spark promises a task half of what would be its part if all
  // that can run did, and its pages are a sixteenth to an eighth of that, but for their least size.
  private val PagesOfSpark = 4L

  /** Makes the tables of tasks, for generated code. */
  final class Maker(fields: Int, decimals: Array[Int], limit: Long) extends Serializable {
    def make(): GroupTable = {
      val task = TaskContext.get()
      val manager = task.taskMemoryManager()
      val table = new GroupTable(fields, decimals, Math.min(limit, PagesOfSpark * manager.pageSizeBytes), manager)
      task.addTaskCompletionListener[Unit](_ => table.free())
      table
    }
  }
}
