package org.apache.spark.sql.mullion.operator.partial.group

import org.apache.spark.TaskContext
import org.apache.spark.memory.{MemoryConsumer, MemoryMode, SparkOutOfMemoryError, TaskMemoryManager}
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.memory.MemoryBlock

/** The groups of one task, without Java objects for groups. A group is a record: a row of the aggregate's output in
  * Spark's form, and a word before it. Records are consecutive in pages; an index finds them by the hash of their keys,
  * with linear probing.
  *
  * {{{
  *   index     [tag | page, word]  [0]  [tag | page, word] ...     open addressing, at most half full
  *   page      [hash, bytes] null bits, keys ..., slice, buffers ..., decimals, texts of keys   [hash, bytes] ...
  *                                                                    [first of its objects: see GroupObjects]
  * }}}
  *
  * All memory is acquired from Spark first. If there is none left, [[add]] fails: the groups are then emitted, page by
  * page, and the table starts over. The caller is generated code.
  *
  * Pages are always arrays on the heap, even if Spark uses off-heap memory. The JVM can keep values of one array in
  * registers across writes to others, but not values at raw addresses.
  *
  * @param fields
  *   the number of columns of a record
  * @param decimals
  *   the columns with two more words
  * @param limit
  *   the maximum number of bytes to acquire
  * @param kinds
  *   the objects of a group, if it has any
  */
final class GroupTable(
    fields: Int,
    decimals: Array[Int],
    limit: Long,
    manager: TaskMemoryManager,
    kinds: Option[GroupObjects.Kinds] = None
) extends MemoryConsumer(manager, GroupTable.LeastPage, MemoryMode.ON_HEAP) {
  import GroupTable._

  private[this] val rowWords = GroupLayout.words(fields, decimals.length, kinds.isDefined)
  private[this] val firstField = GroupLayout.words(fields, 0, hasObjects = false) - fields
  private[this] val objectsWord = rowWords - 1
  // Null if groups have none: an Option would be unpacked for each row.
  private[this] val groupObjects = kinds.map(_.make(holdObjects)).orNull
  private[this] var objectBytes = 0L
  private[this] var objectsAcquired = 0L
  private[this] var isFull = false
  private[this] val hasPages = manager.getTungstenMemoryMode == MemoryMode.ON_HEAP

  private[this] var indexBlock: MemoryBlock = _
  private[this] var entries: Array[Long] = NoEntries
  private[this] var lastEntry = 0
  private[this] var growsAt = 0
  private[this] var count = 0

  // Page 0 holds a single record: that of a row for which there is no room.
  private[this] var blocks = new Array[MemoryBlock](8)
  private[this] var arrays = new Array[Array[Long]](8)
  private[this] var filled = new Array[Int](8)
  private[this] var page = 0
  private[this] var word = 0
  private[this] var words = 0
  private[this] var pageBytes = FirstPage
  arrays(0) = new Array[Long](rowWords + 1)

  private[this] val handed = new UnsafeRow(fields)
  private[this] var out = handed
  private[this] var handing = false
  private[this] var from = 0
  private[this] var fromWord = 0
  private[this] var early = 0L
  private[this] var peak = 0L

  private[this] val ahead = new Array[Long](Together)
  private[this] var touched = 0L

  makeIndex(FirstIndex)

  /** The index, valid until a record is added, with [[mask]] + 1 entries. An entry is 0, or 20 bits of a hash and a
    * record: those with a row's hash are between `hash & mask` and the next 0.
    */
  def index: Array[Long] = entries

  def mask: Int = lastEntry

  /** The arrays with the records, valid until a record is added: by `record >>> WordBits`. */
  def pages: Array[Array[Long]] = arrays

  /** The best number of rows to add in one block: their groups must fit into the first-level cache. Few groups are
    * cached anyway, so no blocks are needed.
    */
  def together: Int = if (count <= Few) Integer.MAX_VALUE else Together

  /** Reads the memory that rows will need, so that it is cached when they are added. The reads are independent, so
    * cache misses overlap. Few groups are cached anyway.
    *
    * @param hashes
    *   of at most [[together]] rows
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
    // After a collision, the row's entry is nearby and already cached.
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
      if (ahead(i) != 0L) {
        val page = arrays((ahead(i) >>> WordBits).toInt)
        val row = (ahead(i) & WordMask).toInt
        // Texts of keys are behind the words.
        all += page(row) + page(row + (page(row - 1).toInt >>> 3) - 1)
      }
      i += 1
    }
    // Prevents the JVM from eliminating the reads.
    touched = all
  }

  /** A new record of a group, or 0 if there is no room. The caller writes its entire row.
    *
    * @param bytes
    *   the size of its row
    */
  def add(hash: Int, bytes: Int): Long =
    if (isFull || (count >= growsAt && !grow())) 0L
    else if (word + (bytes >>> 3) + 1 > words && !turnPage(bytes + 8)) 0L
    else {
      arrays(page)(word) = (hash.toLong << 32) | bytes
      val record = (page.toLong << WordBits) | (word + 1)
      word += (bytes >>> 3) + 1
      count += 1
      enter(hash, record)
      record
    }

  /** A record for a row that found no room, to which no other row is added. */
  def alone(bytes: Int): Long = {
    if (arrays(0).length < bytes / 8 + 1) arrays(0) = new Array[Long](bytes / 8 + 1)
    early += 1
    handed.pointTo(arrays(0), GroupBytes.placeOf(1), bytes)
    Alone
  }

  /** The row of that record, owned by the caller. */
  def aloneRow: UnsafeRow = {
    write(arrays(0), 1)
    out.copy()
  }

  /** The objects of groups. */
  def objects: GroupObjects = groupObjects

  def isAlone(record: Long): Boolean = record == Alone

  /** Begins to emit its groups.
    *
    * @param isEarly
    *   whether there are further rows
    */
  def handOn(isEarly: Boolean): Unit = {
    if (isEarly) early += count
    if (page > 0) filled(page) = word
    // The node above needs memory too, for the emitted rows.
    freeIndex()
    handing = true
    from = 1
    fromWord = 0
  }

  def isHandingOn: Boolean = handing

  /** Moves to the next group, which is in [[current]] until the next call. Returns whether there is one. Pages are
    * released when all their groups have been emitted.
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
      releaseObjects()
      false
    } else {
      val bytes = arrays(from)(fromWord).toInt
      handed.pointTo(arrays(from), GroupBytes.placeOf(fromWord + 1), bytes)
      write(arrays(from), fromWord + 1)
      fromWord += (bytes >>> 3) + 1
      true
    }
  }

  def current: UnsafeRow = out

  /** Converts the row in [[handed]] to Spark's form, in [[out]]. */
  private def write(page: Array[Long], row: Int): Unit = {
    writeDecimals(page, row)
    out = if (groupObjects eq null) handed else groupObjects.written(handed, page(row + objectsWord).toInt)
  }

  private def writeDecimals(page: Array[Long], row: Int): Unit = {
    var i = 0
    while (i < decimals.length) {
      val field = decimals(i)
      GroupDecimals.handOn(page, row, firstField + field, firstField + fields + i * 2, handed.isNullAt(field))
      i += 1
    }
  }

  /** The rows emitted before the end of the input. */
  def handedOnEarly: Long = early

  def peakBytes: Long = peak

  /** Acquires memory for objects, a part in advance. Without it, the table is full. */
  private def holdObjects(change: Long): Unit = {
    objectBytes += change
    if (objectBytes > objectsAcquired && !isFull) {
      val least = objectBytes - objectsAcquired
      val more = least + Math.min(ObjectsAhead, limit / 16)
      val got = if (getUsed + more > limit) 0L else acquireMemory(more)
      objectsAcquired += got
      peak = Math.max(peak, getUsed)
      if (got < least) {
        // No row finds its group now.
        isFull = true
        freeIndex()
      }
    }
  }

  private def releaseObjects(): Unit = {
    if (objectsAcquired > 0) freeMemory(objectsAcquired)
    objectBytes = 0L
    objectsAcquired = 0L
    isFull = false
    if (groupObjects ne null) groupObjects.clear()
  }

  private def grow(): Boolean = {
    val size = indexAfter(lastEntry + 1)
    if (size <= LargestIndex && makeIndex(size)) true
    // Slower when fuller, but still faster than starting over.
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

  /** Memory from Spark, or null. */
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

  /** The same if Spark's pages are off-heap. */
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

  /** Releases all memory. */
  def free(): Unit = {
    freeIndex()
    var p = 1
    while (p <= page) {
      giveBack(p)
      p += 1
    }
    page = 0
    handing = false
    releaseObjects()
  }

  /** Only the task's own loop emits groups: other consumers must get their memory elsewhere. */
  override def spill(size: Long, trigger: MemoryConsumer): Long = 0L
}

object GroupTable {
  // An entry of the index: 20 bits of the hash, 14 of a page, 30 of a word in it.
  private[partial] val WordBits = 30
  private[partial] val WordMask = (1L << WordBits) - 1
  private[partial] val AddressBits = 44
  private[partial] val AddressMask = (1L << AddressBits) - 1
  private[partial] val TagShift = 12
  private val MostPages = 1 << 13
  private val LargestIndex = 1 << 28

  private val NoEntries = Array(0L)

  private val Alone = 1L

  // More than the number of cache misses that a processor overlaps.
  private val Together = 64

  // The number of groups that stay cached anyway.
  private val Few = 4096

  // Small at first, like most micro-batches.
  private val FirstIndex = 1 << 10

  // Up to this size it is at most a quarter full, because it is cached anyway.
  private val SparseIndex = 1 << 14
  private val LeastPage = 8L

  // Requests of memory for objects are this much larger than needed, so that there are few.
  private val ObjectsAhead = 1L << 20

  // The collector puts arrays of more than half a region (at least a megabyte) into their own regions. It never copies
  // those, but the rest of the last region is wasted. Pages are therefore well below half a region, or exact multiples
  // of regions including their header, which Spark pools if they are large.
  private val FirstPage = 64L << 10
  private val LargestInEden = 256L << 10
  private val OneRegion = 1L << 20
  private val TwoRegions = 2L << 20
  private val ManyRegions = 4L << 20

  private def pageAfter(bytes: Long, used: Long): Long =
    if (bytes < LargestInEden) bytes * 2 else if (used < ManyRegions) OneRegion else TwoRegions

  // A larger index would get its own region, and Spark pools no array of less than a megabyte.
  private val BelowHalf = 1 << 15
  private val LeastKept = 1 << 17

  /** The next size of an index. */
  private def indexAfter(entries: Int): Int =
    if (entries == 1) FirstIndex else if (entries == BelowHalf) LeastKept else entries * 2

  // The consumer of the rows (a sort or the shuffle) needs memory before the table's is released. Spark guarantees a
  // task half of its share if all cores are busy, and its page size is a sixteenth to an eighth of that, above its
  // minimum.
  private val PagesOfSpark = 4L

  /** Creates the tables of tasks, for generated code. */
  final class Maker(fields: Int, decimals: Array[Int], limit: Long, kinds: Option[GroupObjects.Kinds])
      extends Serializable {
    def make(): GroupTable = {
      val task = TaskContext.get()
      val manager = task.taskMemoryManager()
      val most = Math.min(limit, PagesOfSpark * manager.pageSizeBytes)
      val table = new GroupTable(fields, decimals, most, manager, kinds)
      task.addTaskCompletionListener[Unit](_ => table.free())
      table
    }
  }
}
