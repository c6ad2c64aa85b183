package org.apache.spark.sql.mullion.state.btree

import java.util.BitSet

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** Records in memory, in order of three numbers, with cheap immutable versions.
  *
  * {{{
  *   Version 7          Version 8          the records are in leaves of at most 128; a change of a leaf that is part
  *    [A][B][C]          [A][B'][C]        of a version copies it first, and the other leaves are shared
  * }}}
  *
  * Leaves that are part of no version are changed in place: leaves are numbered by creation, and those created after
  * the last version are not shared. Equal numbers may belong to different keys, because some are hashes: then the bytes
  * of the keys decide.
  *
  * One thread writes; any thread may read versions.
  *
  * @param hasPlaces
  *   whether records are written to a store, see `writesTo`
  * @param keyCodec
  *   derives keys from their numbers, where numbers identify keys
  */
private[state] final class VersionedBTree(
    from: VersionedBTree.Version = VersionedBTree.Version.empty,
    hasPlaces: Boolean = false,
    keyCodec: Option[ImplicitKeys] = None
) {
  import VersionedBTree._

  private val exact = keyCodec.isDefined
  private val leaves = new Leaves(from.leaves)
  private var records = from.size
  private var taken = from.bytes
  // The memory of the leaves, including those that only a version or a scan uses.
  private var allocated = from.footprint
  private var inVersions = 0L
  private var inScans = 0L
  // The creation number of new leaves, and that of the last leaf that is part of a version.
  private var now = from.sharedAt + 1
  private var shared = from.sharedAt
  // The latter without the versions of running scans.
  private var sharedForGood = from.sharedAt
  private var scans = 0
  private val finger = new LastPosition
  // The leaf whose records the current scan has removed last. They are deleted with the next operation.
  private var going = Option.empty[Leaf]
  private var goingFrom = 0
  private var goingUntil = 0
  private var writeBack = WriteBack.none

  def size: Long = {
    settle()
    records
  }

  def bytes: Long = {
    settle()
    taken
  }

  /** The memory in use, including running scans and the last version. */
  def footprint: Long = allocated + inVersions + inScans

  /** The minimum memory of one more record. */
  def leastOf(key: UnsafeRow, value: UnsafeRow): Long =
    28L + (if (exact) 0 else key.getSizeInBytes) + value.getSizeInBytes

  /** Sets the destination of writes, and resets running scans. */
  def writesTo(places: WriteBack.Places): Unit = {
    writeBack = new WriteBack(places)
    scans = 0
    endScans()
  }

  /** The current version. */
  def version(): Version = {
    share()
    sharedForGood = shared
    inVersions = 0L
    new Version(leaves.version(), records, taken, allocated, shared)
  }

  /** Releases all versions. */
  def forgetVersions(): Unit = {
    sharedForGood = NeverShared
    inVersions = 0L
    if (scans == 0) endScans()
  }

  /** The current version, until `endScan`. */
  def scanned(): Version = {
    share()
    scans += 1
    val version = leaves.version()
    // The next change copies the list of leaves.
    inScans += version.footprint
    new Version(version, records, taken, allocated, shared)
  }

  /** Releases a version that was taken for a scan. */
  def endScan(): Unit = {
    // Leaves of a version must not change afterwards.
    settle()
    scans = Math.max(0, scans - 1)
    if (scans == 0) endScans()
  }

  private def endScans(): Unit = {
    shared = sharedForGood
    inScans = 0L
  }

  /** Fails if the counters are wrong or a record is out of order. */
  private[state] def checkInvariants(): Unit = {
    settle()
    val all = (0 until leaves.count).map(leaves(_))
    def require(holds: Boolean, what: => String): Unit = if (!holds) throw new IllegalStateException(what)
    all.foreach(_.checkInvariants())
    require(all.forall(_.size > 0), "an empty leaf")
    require(all.map(_.size.toLong).sum == records, s"$records records are counted")
    require(
      all.map(leaf => (0 until leaf.size).map(leaf.lengthOf(_).toLong).sum).sum == taken,
      s"$taken bytes of records"
    )
    require(all.map(_.footprint).sum == allocated, s"$allocated bytes of leaves")
    require(all.forall(_.since <= now), "a leaf of a time to come")
    require(scans > 0 || (shared == sharedForGood && inScans == 0), "a scan that has ended has leaves")
    require(inVersions >= 0 && inScans >= 0, "leaves are counted out twice")
    val numbers = all.flatMap(leaf => (0 until leaf.size).map(i => (leaf.a(i), leaf.b(i), leaf.c(i))))
    require(numbers.zip(numbers.drop(1)).forall { case (x, y) => Ordering[(Long, Long, Long)].lteq(x, y) }, "no order")
    // The first leaf also holds records before its start.
    require(all.drop(1).forall(leaf => !leaf.comesAfter(leaf.a(0), leaf.b(0), leaf.c(0))), "a record before its leaf")
    require(
      all.drop(1).zip(all).forall { case (leaf, before) =>
        val last = before.size - 1
        !leaf.startsBefore(before.a(last), before.b(last), before.c(last))
      },
      "leaves are in no order"
    )
  }

  private[state] def places: Iterator[Place] = {
    settle()
    (0 until leaves.count).iterator.flatMap(l => (0 until leaves(l).size).iterator.map(leaves(l).place(_)))
  }

  private def share(): Unit = {
    settle()
    shared = now
    now += 1
  }

  /** A cursor on the first record whose numbers are at least these, valid until the next change. */
  def cursor(a: Long, b: Long, c: Long): Cursor = {
    lowerBound(a, b, c)
    new Cursor(leaves.array, leaves.count, finger.leaf, finger.at)
  }

  /** Points a row to the value of `key`, which must not be changed. Returns whether it exists. */
  def get(a: Long, b: Long, c: Long, key: UnsafeRow, value: UnsafeRow): Boolean = {
    val exists = find(a, b, c, key)
    if (exists) leaves(finger.leaf).valueTo(finger.at, value)
    exists
  }

  /** Puts a record, whether its key exists or not. */
  def put(a: Long, b: Long, c: Long, key: UnsafeRow, value: UnsafeRow): Unit =
    if (find(a, b, c, key)) {
      val leaf = ownLeaf(finger.leaf)
      val at = finger.at
      taken += key.getSizeInBytes + value.getSizeInBytes - leaf.lengthOf(at)
      val had = leaf.footprint
      leaf.setValue(at, value)
      allocated += leaf.footprint - had
      if (hasPlaces) writeBack.changes(leaf, at)
    } else insert(a, b, c, key, value, Place.Unwritten)

  /** Puts a record with a new key. */
  def append(a: Long, b: Long, c: Long, key: UnsafeRow, value: UnsafeRow, place: Place = Place.Unwritten): Unit = {
    lowerBound(a, b, c)
    insert(a, b, c, key, value, place)
  }

  /** Schedules an unchanged record to be written again. */
  def writeAnew(a: Long, b: Long, c: Long, key: UnsafeRow): Unit =
    if (find(a, b, c, key)) ownLeaf(finger.leaf).place(finger.at, Place.Unwritten)

  /** Schedules all records in some segments to be written again.
    *
    * @param segments
    *   their numbers in order
    */
  def writeAnew(segments: Array[Long]): Unit = {
    settle()
    val first = segments.head
    val wanted = new BitSet((segments.last - first).toInt + 1)
    segments.foreach(id => wanted.set((id - first).toInt))
    var l = 0
    while (l < leaves.count) {
      val size = leaves(l).size
      var i = 0
      while (i < size) {
        val place = leaves(l).place(i)
        val from = place.segment - first
        if (place.isInSegment && from >= 0 && from <= segments.last - first && wanted.get(from.toInt))
          ownLeaf(l).place(i, Place.Unwritten)
        i += 1
      }
      l += 1
    }
  }

  def remove(a: Long, b: Long, c: Long, key: UnsafeRow): Unit = if (find(a, b, c, key)) {
    remove(finger.leaf, finger.at, finger.at + 1)
  }

  /** Removes an existing record, by its index in a leaf of a running scan. For many removals in order, leaves are
    * removed entirely, without copies for the scan.
    */
  def remove(leaf: Leaf, at: Int): Unit = {
    if (goingUntil != at || !going.exists(_ eq leaf)) {
      settle()
      going = Some(leaf)
      goingFrom = at
    }
    goingUntil = at + 1
  }

  /** Performs the removals of scans. */
  private def settle(): Unit = if (going.isDefined) {
    val leaf = going.get
    going = None
    val l = placeOf(leaf)
    if (l >= 0) remove(l, goingFrom, goingUntil)
    else {
      // The leaf has changed since the scan began.
      val key = new UnsafeRow(0)
      val room = ImplicitKeys.room()
      (goingFrom until goingUntil).foreach { i =>
        leaf.keyTo(i, key, room)
        remove(leaf.a(i), leaf.b(i), leaf.c(i), key)
      }
    }
  }

  /** The index of a leaf in the list; -1 if it is not in the list unchanged. */
  private def placeOf(leaf: Leaf): Int = {
    // Consecutive removals are at the same index or the next.
    val near = finger.leaf
    if (near < leaves.count && (leaves(near) eq leaf)) near
    else if (near + 1 < leaves.count && (leaves(near + 1) eq leaf)) near + 1
    else {
      var l = leaves.find(leaf.firstA, leaf.firstB, leaf.firstC)
      while (l < leaves.count && !(leaves(l) eq leaf) && !leaves(l).comesAfter(leaf.firstA, leaf.firstB, leaf.firstC))
        l += 1
      if (l >= 0 && l < leaves.count && (leaves(l) eq leaf)) l else -1
    }
  }

  private def remove(l: Int, from: Int, until: Int): Unit = {
    val had = leaves(l)
    val isAll = from == 0 && until == had.size
    val leaf = if (isAll) had else ownLeaf(l)
    var i = from
    while (i < until) {
      taken -= leaf.lengthOf(i)
      if (hasPlaces) writeBack.goes(leaf, i)
      i += 1
    }
    records -= until - from
    finger.invalidate()
    finger.leaf = l
    finger.at = from
    if (isAll) drop(l)
    else {
      allocated -= leaf.footprint
      leaf.remove(from, until)
      allocated += leaf.footprint
      if (leaf.size < Leaf.Capacity / 4 && l + 1 < leaves.count) {
        val next = leaves(l + 1)
        if (leaf.takes(next)) {
          allocated -= leaf.footprint
          leaf.addAll(next)
          allocated += leaf.footprint
          drop(l + 1)
        }
      }
    }
  }

  private def drop(i: Int): Unit = {
    gone(leaves(i))
    leaves.drop(i)
  }

  /** Stops counting a removed leaf. */
  private def gone(leaf: Leaf): Unit = {
    allocated -= leaf.footprint
    if (leaf.since <= sharedForGood) inVersions += leaf.footprint
    else if (leaf.since <= shared) inScans += leaf.footprint
  }

  /** True if any record is not written. */
  def hasUnwritten: Boolean = {
    settle()
    writeBack.isDue(leaves)
  }

  /** Writes unwritten records in order. */
  def write(): Unit = {
    settle()
    writeBack.drain(leaves, leaving = false)
  }

  /** Writes all records except those under their own keys to other places, leaving this object unchanged, because it is
    * about to leave memory.
    */
  def leaveFor(places: WriteBack.Places): Unit = {
    settle()
    new WriteBack(places).drain(leaves, leaving = true)
  }

  /** Finds the record of `key`, or its place if there is none. */
  private def find(a: Long, b: Long, c: Long, key: UnsafeRow): Boolean = {
    settle()
    if (finger.isOnNone(a, b, c)) false
    else if (finger.isOnRecord(a, b, c) && (exact || leaves(finger.leaf).isOf(finger.at, key))) true
    else {
      lowerBound(a, b, c)
      search(a, b, c, key)
    }
  }

  /** The same, from the first record whose numbers are at least these. */
  private def search(a: Long, b: Long, c: Long, key: UnsafeRow): Boolean = {
    var l = finger.leaf
    var i = finger.at
    var others = false
    while (l < leaves.count) {
      val leaf = leaves(l)
      while (i < leaf.size) {
        if (!leaf.isAt(i, a, b, c)) {
          if (!others) finger.foundNone(a, b, c)
          return false
        }
        if (exact || leaf.isOf(i, key)) {
          finger.leaf = l
          finger.at = i
          finger.foundRecord(a, b, c)
          return true
        }
        others = true
        i += 1
      }
      l += 1
      i = 0
    }
    if (!others) finger.foundNone(a, b, c)
    false
  }

  /** Consecutive searches are usually close to the last one, or at the start of the next leaf. */
  private def lowerBound(a: Long, b: Long, c: Long): Unit = {
    settle()
    finger.invalidate()
    val before = finger.leaf
    val now = leafOf(a, b, c)
    finger.leaf = now
    finger.at =
      if (leaves.count == 0) 0
      else if (now == before) leaves(now).lowerBound(a, b, c, finger.at)
      else if (now == before + 1) leaves(now).lowerBound(a, b, c, 0)
      else leaves(now).lowerBound(a, b, c)
  }

  /** The last leaf that starts before these numbers, or the first. */
  private def leafOf(a: Long, b: Long, c: Long): Int = {
    val nearby = finger.leaf
    val notBefore = nearby < leaves.count && (nearby == 0 || leaves.startsBefore(nearby, a, b, c))
    if (!notBefore) leaves.find(a, b, c)
    else if (!leaves.startsBefore(nearby + 1, a, b, c)) nearby
    else if (!leaves.startsBefore(nearby + 2, a, b, c)) nearby + 1
    else leaves.find(a, b, c)
  }

  private def insert(a: Long, b: Long, c: Long, key: UnsafeRow, value: UnsafeRow, place: Place): Unit = {
    if (leaves.count == 0) add(0, Leaf(now, a, b, c, 16, hasPlaces, keyCodec))
    var leaf = ownLeaf(finger.leaf)
    while (leaf.isFull(key, value)) {
      if (finger.leaf + 1 == leaves.count && finger.at == leaf.size) {
        // Appending at the very end starts a new leaf, so that sequential inserts fill their leaves.
        add(finger.leaf + 1, Leaf(now, a, b, c, Leaf.Capacity, hasPlaces, keyCodec))
        finger.leaf += 1
        finger.at = 0
      } else {
        val half = leaf.size / 2
        allocated -= leaf.footprint
        val right = leaf.split(half, now)
        allocated += leaf.footprint
        add(finger.leaf + 1, right)
        if (finger.at > half) { finger.leaf += 1; finger.at -= half }
      }
      leaf = leaves(finger.leaf)
    }
    allocated -= leaf.footprint
    leaf.insertAt(finger.at, a, b, c, key, value)
    allocated += leaf.footprint
    finger.foundRecord(a, b, c)
    if (hasPlaces) leaf.place(finger.at, place)
    records += 1
    taken += key.getSizeInBytes + value.getSizeInBytes
  }

  private def add(i: Int, leaf: Leaf): Unit = {
    leaves.insert(i, leaf)
    allocated += leaf.footprint
  }

  private def ownLeaf(i: Int): Leaf = {
    val leaf = leaves(i)
    if (leaf.since > shared) leaf
    else {
      val copy = leaf.copy(now)
      gone(leaf)
      leaves.replace(i, copy)
      allocated += copy.footprint
      copy
    }
  }
}

private[state] object VersionedBTree {
  // The creation number of leaves that are part of no version: before all.
  private final val NeverShared = 0L

  /** An immutable version.
    *
    * @param sharedAt
    *   its creation, in the numbering of leaves
    */
  final class Version private[VersionedBTree] (
      private[VersionedBTree] val leaves: Leaves.Version,
      val size: Long,
      val bytes: Long,
      val footprint: Long,
      private[VersionedBTree] val sharedAt: Long
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
    val empty: Version = new Version(Leaves.empty, 0L, 0L, 0L, NeverShared)
  }

  /** Iterates over records; it is on a record while `isOn`. */
  final class Cursor private[VersionedBTree] (
      leaves: Array[Leaf],
      count: Int,
      private var leaf: Int,
      private var at: Int
  ) {
    private val room = ImplicitKeys.room()
    settle()

    def isOn: Boolean = leaf < count
    private[btree] def onLeaf: Leaf = leaves(leaf)
    private[btree] def onAt: Int = at
    def a: Long = leaves(leaf).a(at)
    def b: Long = leaves(leaf).b(at)
    def c: Long = leaves(leaf).c(at)

    /** Points a row to the key, which must not be changed; valid until the next call. */
    def keyTo(row: UnsafeRow): Unit = leaves(leaf).keyTo(at, row, room)

    /** Points a row to the value, which must not be changed. */
    def valueTo(row: UnsafeRow): Unit = leaves(leaf).valueTo(at, row)

    def move(): Unit = { at += 1; settle() }

    /** Reads a word of some of the next records in its leaf, see [[Leaf.touch]]. */
    def touch(most: Int): Long = if (isOn) leaves(leaf).touch(at, Math.min(at + most, leaves(leaf).size)) else 0L

    private def settle(): Unit = while (leaf < count && at >= leaves(leaf).size) { leaf += 1; at = 0 }
  }
}
