package org.apache.spark.sql.mullion.state

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** Records in memory, in order of three numbers, and a version of them at any time for next to nothing.
  *
  * {{{
  *   Version 7          Version 8          the records lie in leaves of at most 128; whoever changes one that is part
  *    [A][B][C]          [A][B'][C]        of a version copies it first, and the rest is shared: so a version, once
  *                                         taken, never changes
  * }}}
  *
  * What is part of no version is changed in place: leaves are numbered by when they were made, and those made since the
  * last version was taken are nobody else's. Equal numbers may stand for different keys (they are hashes, in part):
  * then the bytes of the keys decide.
  *
  * One thread writes; versions may be read by any.
  *
  * @param hasPlaces
  *   whether records are written somewhere, see `writesTo`
  * @param exact
  *   whether equal numbers always stand for the same key
  */
private[state] final class SortedRecords(
    from: SortedRecords.Version = SortedRecords.Version.empty,
    hasPlaces: Boolean = false,
    exact: Boolean = false
) {
  import SortedRecords._

  private val leaves = new Leaves(from.leaves)
  private var records = from.size
  private var taken = from.bytes
  // When leaves are made that are made now, and when the last one was made that is part of a version.
  private var now = from.sharedAt + 1
  private var shared = from.sharedAt
  // The latter without the versions of those scans that go on.
  private var sharedForGood = from.sharedAt
  private var scans = 0
  private var lastLeaf = 0
  // Where the last search ended, for a record is mostly looked up before it is changed.
  private var leafAt = 0
  private var at = 0
  private var ended = Elsewhere
  private var endedA = 0L
  private var endedB = 0L
  private var endedC = 0L
  private var places = Places.none
  private var overwrites = false
  // The keys of what lay alone and does so no more.
  private val alone = new java.util.ArrayList[Array[Byte]]

  def size: Long = records

  def bytes: Long = taken

  /** Says where records are written from now on, and that no scan goes on. */
  def writesTo(places: Places): Unit = {
    this.places = places
    overwrites = places.overwrites
    scans = 0
    shared = sharedForGood
  }

  /** The records as they are now. */
  def version(): Version = {
    share()
    sharedForGood = shared
    new Version(leaves.version(), records, taken, shared)
  }

  /** The records as they are now, until `endScan`. */
  def scanned(): Version = {
    share()
    scans += 1
    new Version(leaves.version(), records, taken, shared)
  }

  /** Says that a version is needed no more that was taken for a scan. */
  def endScan(): Unit = {
    scans = Math.max(0, scans - 1)
    if (scans == 0) shared = sharedForGood
  }

  private def share(): Unit = {
    shared = now
    now += 1
  }

  /** The records from the first whose numbers are at least these; it stands until the next change. */
  def cursor(a: Long, b: Long, c: Long): Cursor = {
    lowerBound(a, b, c)
    new Cursor(leaves.array, leaves.count, leafAt, at)
  }

  /** Has a row stand on the value of `key`, not to be changed; whether it is there. */
  def get(a: Long, b: Long, c: Long, key: UnsafeRow, value: UnsafeRow): Boolean = {
    val found = find(a, b, c, key)
    if (found) leaves(leafAt).valueTo(at, value)
    found
  }

  /** Puts a record, whether its key is there or not. */
  def put(a: Long, b: Long, c: Long, key: UnsafeRow, value: UnsafeRow): Unit =
    if (find(a, b, c, key)) {
      val leaf = ownLeaf(leafAt)
      taken += key.getSizeInBytes + value.getSizeInBytes - leaf.lengthOf(at)
      leaf.setValue(at, value)
      if (hasPlaces) {
        if (overwrites && leaf.places(at) <= Alone) leaf.place(at, Changed)
        else {
          leave(leaf)
          leaf.place(at, Unwritten)
        }
      }
    } else insert(a, b, c, key, value, Unwritten)

  /** Puts a record that is not there. */
  def append(a: Long, b: Long, c: Long, key: UnsafeRow, value: UnsafeRow, place: Long = Unwritten): Unit = {
    lowerBound(a, b, c)
    insert(a, b, c, key, value, place)
  }

  /** Has a record written anew that has not changed. */
  def writeAnew(a: Long, b: Long, c: Long, key: UnsafeRow): Unit =
    if (find(a, b, c, key)) ownLeaf(leafAt).place(at, Unwritten)

  /** Removes the record of `key`, if it is there. */
  def remove(a: Long, b: Long, c: Long, key: UnsafeRow): Unit = if (find(a, b, c, key)) {
    val leaf = ownLeaf(leafAt)
    taken -= leaf.lengthOf(at)
    records -= 1
    if (hasPlaces) leave(leaf)
    leaf.removeAt(at)
    ended = Elsewhere
    if (leaf.size == 0) leaves.drop(leafAt)
    else if (leaf.size < Leaf.Capacity / 4 && leafAt + 1 < leaves.count) {
      val next = leaves(leafAt + 1)
      if (leaf.takes(next)) {
        leaf.addAll(next)
        leaves.drop(leafAt + 1)
      }
    }
  }

  /** Whether any record is not written. */
  def hasUnwritten: Boolean = {
    var l = 0
    while (l < leaves.count && !leaves(l).isDirty) l += 1
    l < leaves.count
  }

  /** Writes what is not written, in order. */
  def write(): Unit = {
    var l = 0
    while (l < leaves.count) {
      val leaf = leaves(l)
      if (leaf.isDirty) {
        var i = 0
        while (i < leaf.size) {
          val place = leaf.places(i)
          if (place == Unwritten || place == Changed) leaf.places(i) = write(leaf, i, places)
          i += 1
        }
        leaf.isDirty = false
      }
      l += 1
    }
  }

  /** Writes all that does not lie alone to `others`, and leaves its own places as they are. */
  def writeNotAlone(others: Places): Unit = {
    var l = 0
    while (l < leaves.count) {
      val leaf = leaves(l)
      var i = 0
      while (i < leaf.size) {
        if (leaf.places(i) != Alone) write(leaf, i, others)
        i += 1
      }
      l += 1
    }
  }

  private def write(leaf: Leaf, i: Int, to: Places): Long = {
    leaf.keyTo(i, to.key)
    leaf.valueTo(i, to.value)
    to.write()
  }

  /** Hands out the keys of what lay alone, and is gone or to be written elsewhere; each once. */
  def foreachLeft(remove: Array[Byte] => Unit): Unit = {
    alone.forEach(key => remove(key))
    alone.clear()
  }

  /** Says of a record that is changed or removed that it is not in its place any more. */
  private def leave(leaf: Leaf): Unit = {
    val place = leaf.places(at)
    if (place >= 0) places.remove(place)
    else if (place <= Alone) {
      val key = new UnsafeRow(0)
      leaf.keyTo(at, key)
      alone.add(RecordBytes.of(key))
    }
    ()
  }

  /** Finds the record of `key`; if there is none, where it belongs. */
  private def find(a: Long, b: Long, c: Long, key: UnsafeRow): Boolean = {
    if (ended != Elsewhere && endedA == a && endedB == b && endedC == c) {
      if (ended == AtNone) return false
      if (exact || leaves(leafAt).isOf(at, key)) return true
    }
    lowerBound(a, b, c)
    var l = leafAt
    var i = at
    var others = false
    while (l < leaves.count) {
      val leaf = leaves(l)
      while (i < leaf.size) {
        if (!leaf.isAt(i, a, b, c)) {
          if (!others) endAt(AtNone, a, b, c)
          return false
        }
        if (exact || leaf.isOf(i, key)) {
          leafAt = l
          at = i
          endAt(AtRecord, a, b, c)
          return true
        }
        others = true
        i += 1
      }
      l += 1
      i = 0
    }
    if (!others) endAt(AtNone, a, b, c)
    false
  }

  private def endAt(what: Int, a: Long, b: Long, c: Long): Unit = {
    ended = what
    endedA = a
    endedB = b
    endedC = c
  }

  /** What comes in order is found near where the last search ended, or at the start of the next leaf. */
  private def lowerBound(a: Long, b: Long, c: Long): Unit = {
    ended = Elsewhere
    val before = leafAt
    leafAt = leafOf(a, b, c)
    at =
      if (leaves.count == 0) 0
      else if (leafAt == before) leaves(leafAt).lowerBound(a, b, c, at)
      else if (leafAt == before + 1) leaves(leafAt).lowerBound(a, b, c, 0)
      else leaves(leafAt).lowerBound(a, b, c)
  }

  /** The last leaf that starts before these numbers, or the first. */
  private def leafOf(a: Long, b: Long, c: Long): Int = {
    val known = lastLeaf
    val notBefore = known < leaves.count && (known == 0 || leaves.startsBefore(known, a, b, c))
    if (!notBefore) lastLeaf = leaves.find(a, b, c)
    else if (leaves.startsBefore(known + 1, a, b, c))
      lastLeaf = if (leaves.startsBefore(known + 2, a, b, c)) leaves.find(a, b, c) else known + 1
    lastLeaf
  }

  private def insert(a: Long, b: Long, c: Long, key: UnsafeRow, value: UnsafeRow, place: Long): Unit = {
    if (leaves.count == 0) leaves.insert(0, Leaf(now, a, b, c, 16, hasPlaces))
    var leaf = ownLeaf(leafAt)
    while (leaf.isFull(key, value)) {
      if (leafAt + 1 == leaves.count && at == leaf.size) {
        // At the very end a new leaf is begun: what comes in order fills its leaves.
        leaves.insert(leafAt + 1, Leaf(now, a, b, c, Leaf.Capacity, hasPlaces))
        leafAt += 1
        at = 0
      } else {
        val half = leaf.size / 2
        leaves.insert(leafAt + 1, leaf.split(half, now))
        if (at > half) { leafAt += 1; at -= half }
      }
      leaf = leaves(leafAt)
    }
    leaf.insertAt(at, a, b, c, key, value)
    endAt(AtRecord, a, b, c)
    if (hasPlaces) leaf.place(at, place)
    records += 1
    taken += key.getSizeInBytes + value.getSizeInBytes
  }

  private def ownLeaf(i: Int): Leaf = {
    val leaf = leaves(i)
    if (leaf.since > shared) leaf
    else {
      val copy = leaf.copy(now)
      leaves.replace(i, copy)
      copy
    }
  }
}

private[state] object SortedRecords {
  // What is where a search ended: a record of its numbers, none of them, or nothing that is known any more.
  private final val Elsewhere = 0
  private final val AtNone = 1
  private final val AtRecord = 2

  /** Where a record lies that has changed since it was written, or never was. */
  final val Unwritten = -1L

  /** Where a record lies that is in no segment, but under its own key. */
  final val Alone = -2L

  // The same of one that has changed since, where it is to be written over.
  private[state] final val Changed = -3L

  /** Where the records of one kind are written. */
  trait Places {

    /** Whether a record that lies alone and changes is written over. */
    def overwrites: Boolean

    /** Notes that a record is removed from its place, or is to be written anew. */
    def remove(place: Long): Unit

    /** The rows that stand on the record that is to be written. */
    def key: UnsafeRow
    def value: UnsafeRow

    /** Writes the record; its place. */
    def write(): Long
  }

  private object Places {
    val none: Places = new Places {
      override def overwrites: Boolean = false
      override val key: UnsafeRow = new UnsafeRow(0)
      override val value: UnsafeRow = new UnsafeRow(0)
      override def remove(place: Long): Unit = nowhere
      override def write(): Long = nowhere

      private def nowhere = throw new IllegalStateException("records are written nowhere")
    }
  }

  /** Records as they were, for ever.
    *
    * @param sharedAt
    *   when they became a version, by the numbers of leaves
    */
  final class Version private[SortedRecords] (
      private[SortedRecords] val leaves: Leaves.Version,
      val size: Long,
      val bytes: Long,
      private[SortedRecords] val sharedAt: Long
  ) {

    /** The records in order, from the first whose numbers are at least these. */
    def from(a: Long, b: Long, c: Long): Cursor = {
      val first = leaves.find(a, b, c)
      val array = leaves.leaves
      new Cursor(array, array.length, first, if (array.isEmpty) 0 else array(first).lowerBound(a, b, c))
    }

    def all: Cursor = new Cursor(leaves.leaves, leaves.leaves.length, 0, 0)
  }

  object Version {
    val empty: Version = new Version(Leaves.empty, 0L, 0L, 0L)
  }

  /** Goes through records; it stands on one while `isOn`. */
  final class Cursor private[SortedRecords] (
      leaves: Array[Leaf],
      count: Int,
      private var leaf: Int,
      private var at: Int
  ) {
    settle()

    def isOn: Boolean = leaf < count
    def a: Long = leaves(leaf).a(at)
    def b: Long = leaves(leaf).b(at)
    def c: Long = leaves(leaf).c(at)

    /** Has a row stand on the key, not to be changed. */
    def keyTo(row: UnsafeRow): Unit = leaves(leaf).keyTo(at, row)

    /** Has a row stand on the value, not to be changed. */
    def valueTo(row: UnsafeRow): Unit = leaves(leaf).valueTo(at, row)

    def move(): Unit = { at += 1; settle() }

    private def settle(): Unit = while (leaf < count && at >= leaves(leaf).size) { leaf += 1; at = 0 }
  }

  /** What records take in memory: beside the bytes of keys and values, three numbers, a place, where it starts and how
    * long both are, and a quarter of all that is empty.
    */
  def bytesOf(records: Long, bytes: Long): Long = {
    val all = bytes + records * 44L
    all + all / 4
  }
}
