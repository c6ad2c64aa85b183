package org.apache.spark.sql.mullion.state.btree

import java.util.TreeMap

import scala.jdk.CollectionConverters._

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.util.SizeEstimator

import dev.mullion.PropertySuite

class VersionedBTreeSuite extends PropertySuite {
  import VersionedBTreeSuite._

  override def scalaCheckTestParameters = super.scalaCheckTestParameters.withMinSuccessfulTests(150)

  property("whatever is put and removed, the records are those that a tree would have, in its order") {
    forAll(changes) { changes =>
      val records = new VersionedBTree()
      val model = new Model
      applied(changes, records, model)
      assertEquals(content(records.version()), model.content)
      assertEquals(records.size, model.content.size.toLong)
    }
  }

  property("a version stays as it was, whatever is changed after it, and by whom") {
    forAll(changes, changes, changes) { (before, one, other) =>
      val records = new VersionedBTree()
      val model = new Model
      before.foreach(apply(_, records, model))
      val version = records.version()
      val contentBefore = model.content

      val others = Seq(one -> records, other -> new VersionedBTree(version)).map { case (changes, on) =>
        val copy = model.copy
        changes.foreach(apply(_, on, copy))
        on -> copy
      }

      assertEquals(content(version), contentBefore)
      others.foreach { case (on, copy) => assertEquals(content(on.version()), copy.content) }
    }
  }

  property("a scan starts at the first record that does not come before") {
    forAll(changes, time, time) { (changes, a, b) =>
      val records = new VersionedBTree()
      val model = new Model
      changes.foreach(apply(_, records, model))
      val expected = model.content.dropWhile { case ((x, y, z, _), _) =>
        x < a || (x == a && (y < b || (y == b && z < 0)))
      }
      assertEquals(content(records.version().from(a, b, 0L)), expected)
      assertEquals(content(records.cursor(a, b, 0L)), expected)
    }
  }

  property("a scan sees the records at its start, and after its end records are changed in place again") {
    forAll(changes, changes, changes) { (before, meanwhile, after) =>
      val records = new VersionedBTree()
      val model = new Model
      before.foreach(apply(_, records, model))
      val (version, versionSaid) = (records.version(), model.content)
      before.reverse.foreach(apply(_, records, model))
      val (scanned, scannedSaid) = (records.scanned(), model.content)
      applied(meanwhile.filter(_ != TakeVersion), records, model)
      assertEquals(content(scanned), scannedSaid)
      records.endScan()
      after.foreach(apply(_, records, model))
      assertEquals(content(version), versionSaid)
      assertEquals(content(records.version()), model.content)
    }
  }

  property("a scan can remove any of its records, whatever is changed meanwhile") {
    forAll(changes, time, Gen.listOf(step)) { (before, a, steps) =>
      val records = new VersionedBTree()
      val model = new Model
      before.foreach(apply(_, records, model))
      val (version, versionSaid) = (records.version(), model.content)
      // Changes in place, and changes of a version.
      before.take(before.size / 2).foreach(apply(_, records, model))
      val scan = records.scanned().from(a, Long.MinValue, Long.MinValue)
      val key = new UnsafeRow(1)
      steps.foreach { case Step(forward, removes, checks, change) =>
        Iterator.range(0, forward).takeWhile(_ => scan.isOn).foreach { _ =>
          scan.keyTo(key)
          val at = (scan.a, scan.b, scan.c)
          if (removes && model.has(at, key.getInt(0))) {
            records.remove(scan.onLeaf, scan.onAt)
            model.remove(at, key.getInt(0))
          }
          scan.move()
        }
        if (checks) records.checkInvariants()
        change.filter(_ != TakeVersion).foreach(apply(_, records, model))
      }
      records.endScan()
      records.checkInvariants()
      assertEquals(content(records.version()), model.content)
      assertEquals(records.size, model.content.size.toLong)
      assertEquals(content(version), versionSaid)
    }
  }

  test("a scan that removes all that it comes by copies no leaf but the last") {
    val records = new VersionedBTree()
    (0 until 20000).foreach(k => records.put(k.toLong, 0L, 0L, key(k), row(new Array[Byte](8))))
    records.version()
    val before = records.footprint
    val scan = records.scanned().all
    val perRecord = before / 20000
    (0 until 15050).foreach { _ =>
      records.remove(scan.onLeaf, scan.onAt)
      scan.move()
    }
    assertEquals(records.size, 4950L)
    // The version and the scan keep removed records.
    assert(clue(records.footprint) <= clue(before) + 128 * 2 * perRecord + 24L * 20000 / 64)
    records.forgetVersions()
    records.endScan()
    records.checkInvariants()
    assert(clue(records.footprint) <= clue(before) / 3)
    assertEquals(records.version().all.a, 15050L)
  }

  test("values grow, shrink and leave their leaf, and every version has its last value") {
    val random = new scala.util.Random(7)
    val records = new VersionedBTree()
    var model = Map.empty[Int, Seq[Byte]]
    var versions = List.empty[(VersionedBTree.Version, Map[Int, Seq[Byte]])]
    (1 to 30000).foreach { step =>
      val k = random.nextInt(500)
      if (random.nextInt(4) == 0) {
        records.remove(k.toLong, 0L, 0L, key(k))
        model -= k
      } else {
        val length = 8 * random.nextInt(random.nextInt(40) match {
          case 0 => 4000
          case 1 => 300
          case _ => 12
        })
        val bytes = new Array[Byte](length)
        random.nextBytes(bytes)
        records.put(k.toLong, 0L, 0L, key(k), row(bytes))
        model += k -> bytes.toSeq
      }
      if (step % 100 == 0) records.checkInvariants()
      if (step % 3000 == 0) versions ::= records.version() -> model
    }
    versions.foreach { case (version, said) =>
      assertEquals(valuesOf(version), said)
      assertEquals(version.size, said.size.toLong)
      assertEquals(version.bytes, said.valuesIterator.map(16L + _.size).sum)
    }
  }

  test("the counted size of keys and values is at least their memory, and not much more") {
    val random = new scala.util.Random(11)
    for (size <- Seq(8, 100, 1000, 10000, 100000, 1000000)) {
      val records = new VersionedBTree(hasPlaces = false)
      val count = Math.min(3000, 20000000 / size)
      def key(k: Int) = {
        val bytes = new Array[Byte](16 + size / 8 * 8)
        bytes(8) = k.toByte
        bytes(9) = (k >> 8).toByte
        row(bytes)
      }
      (0 until count).foreach(k => records.put(k.toLong, 0L, 0L, key(k), row(new Array[Byte](8 * random.nextInt(4)))))
      records.checkInvariants()
      val taken = SizeEstimator.estimate(records)
      assert(clue(records.footprint) >= clue(taken), size)
      // Large arrays are counted with the collector's overhead.
      assert(clue(records.footprint) <= clue(taken) * 2 + 200000, size)
      // A leaf has spare room, but limited for large records.
      assert(clue(records.footprint) <= 4 * records.bytes + 2000000, size)
      val scanned = records.scanned()
      (0 until count).filter(_ => random.nextBoolean()).foreach(k => records.remove(k.toLong, 0L, 0L, key(k)))
      records.checkInvariants()
      assert(clue(records.footprint) >= clue(SizeEstimator.estimate(Array[AnyRef](records, scanned))), size)
    }
  }

  test("many records come in any order and go, and nothing is left") {
    val records = new VersionedBTree()
    val random = new scala.util.Random(1)
    val keys = random.shuffle((0 until 20000).toVector)
    keys.foreach(k => records.put(k % 7L, k.toLong * 31 % 1009, 0L, key(k), row(Array.fill[Byte](8)(1))))
    assertEquals(records.size, 20000L)
    random.shuffle(keys).foreach(k => records.remove(k % 7L, k.toLong * 31 % 1009, 0L, key(k)))
    assertEquals((records.size, records.bytes), (0L, 0L))
    assert(!records.version().all.isOn)
  }
}

object VersionedBTreeSuite {
  sealed trait Change
  final case class Put(a: Long, b: Long, c: Long, key: Int, value: Byte) extends Change
  final case class Remove(a: Long, b: Long, c: Long, key: Int) extends Change
  case object TakeVersion extends Change

  /** @param forward
    *   the number of records that a scan advances
    * @param removes
    *   whether it removes them
    */
  final case class Step(forward: Int, removes: Boolean, checks: Boolean, change: Option[Change])

  private lazy val step: Gen[Step] = for {
    forward <- Gen.oneOf(Gen.choose(0, 5), Gen.choose(0, 300))
    removes <- Gen.frequency(3 -> true, 1 -> false)
    checks <- Gen.frequency(1 -> true, 3 -> false)
    change <- Gen.option(change)
  } yield Step(forward, removes, checks, change)

  // Few numbers, so that they are often equal where the keys are not.
  private val time: Gen[Long] = Gen.oneOf(Gen.choose(-2L, 2L), Gen.oneOf(Long.MinValue, Long.MaxValue))

  private val change: Gen[Change] = Gen.frequency(
    20 -> Gen.zip(time, time, Gen.choose(0L, 1L), Gen.choose(0, 40), Gen.choose[Byte](0, 9)).map((Put.apply _).tupled),
    8 -> Gen.zip(time, time, Gen.choose(0L, 1L), Gen.choose(0, 40)).map((Remove.apply _).tupled),
    1 -> Gen.const(TakeVersion)
  )

  // Enough that leaves are split, and emptied.
  private val changes: Gen[List[Change]] = Gen.choose(0, 900).flatMap(Gen.listOfN(_, change))

  /** Records by number; those with equal numbers are in no order. */
  private final class Model(
      records: TreeMap[(Long, Long, Long), Map[Int, Byte]] = new TreeMap(implicitly[Ordering[(Long, Long, Long)]])
  ) {
    def put(at: (Long, Long, Long), key: Int, value: Byte): Unit = {
      records.put(at, records.getOrDefault(at, Map.empty) + (key -> value))
      ()
    }

    def remove(at: (Long, Long, Long), key: Int): Unit = {
      val others = records.getOrDefault(at, Map.empty) - key
      if (others.isEmpty) records.remove(at) else records.put(at, others)
      ()
    }

    def has(at: (Long, Long, Long), key: Int): Boolean = records.getOrDefault(at, Map.empty).contains(key)

    def copy: Model = new Model(new TreeMap(records))

    def content: Seq[((Long, Long, Long, Int), Byte)] = flat(records.asScala.toSeq)
  }

  private def flat(records: Seq[((Long, Long, Long), Map[Int, Byte])]): Seq[((Long, Long, Long, Int), Byte)] =
    records.flatMap { case ((a, b, c), of) => of.toSeq.sorted.map { case (key, value) => ((a, b, c, key), value) } }

  private def content(version: VersionedBTree.Version): Seq[((Long, Long, Long, Int), Byte)] = content(version.all)

  private def content(cursor: VersionedBTree.Cursor): Seq[((Long, Long, Long, Int), Byte)] = {
    val pairs = each(cursor) { (key, value) => ((cursor.a, cursor.b, cursor.c, key.getInt(0)), value.getBytes.head) }
    // Sorted by key only where the numbers are equal.
    pairs.foldLeft(Vector.empty[((Long, Long, Long), Map[Int, Byte])]) { case (groups, ((a, b, c, key), value)) =>
      groups.lastOption match {
        case Some((at, of)) if at == ((a, b, c)) => groups.init :+ (at -> (of + (key -> value)))
        case _                                   => groups :+ ((a, b, c) -> Map(key -> value))
      }
    } match { case groups => flat(groups) }
  }

  private def key(k: Int): UnsafeRow = {
    val row = UnsafeRow.createFromByteArray(16, 1)
    row.setInt(0, k)
    row
  }

  private def row(bytes: Array[Byte]): UnsafeRow = {
    val row = new UnsafeRow(0)
    row.pointTo(bytes, bytes.length)
    row
  }

  private def valuesOf(version: VersionedBTree.Version): Map[Int, Seq[Byte]] = {
    val cursor = version.all
    each(cursor)((_, value) => cursor.a.toInt -> value.getBytes.toSeq).toMap
  }

  private def each[T](cursor: VersionedBTree.Cursor)(read: (UnsafeRow, UnsafeRow) => T): Vector[T] = {
    val (key, value) = (new UnsafeRow(1), new UnsafeRow(1))
    Iterator
      .continually(cursor)
      .takeWhile(_.isOn)
      .map { _ =>
        cursor.keyTo(key)
        cursor.valueTo(value)
        val record = read(key, value)
        cursor.move()
        record
      }
      .toVector
  }

  /** Applies changes one by one, and compares all records after each of the first, and at times later. */
  private def applied(changes: List[Change], records: VersionedBTree, model: Model): Unit =
    changes.zipWithIndex.foreach { case (change, i) =>
      apply(change, records, model)
      if (i < 20 || i % 20 == 0 || i > changes.size - 5) records.checkInvariants()
    }

  private def apply(change: Change, records: VersionedBTree, model: Model): Unit = change match {
    case Put(a, b, c, k, value) =>
      // Lengths depend on the value, so that they change.
      records.put(a, b, c, key(k), row(Array.fill[Byte](8 + 8 * value)(value)))
      model.put((a, b, c), k, value)
      val stored = new UnsafeRow(1)
      assert(records.get(a, b, c, key(k), stored) && stored.getBytes.head == value)
    case Remove(a, b, c, k) =>
      records.remove(a, b, c, key(k))
      model.remove((a, b, c), k)
      assert(!records.get(a, b, c, key(k), new UnsafeRow(1)))
    case TakeVersion => records.version(); ()
  }
}
