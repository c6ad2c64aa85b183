package org.apache.spark.sql.mullion.operator.engine.timers

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.{ArrayBasedMapData, ArrayData}
import org.apache.spark.sql.mullion.operator.bounded.KeyBytes
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.{MullionSuite, TestSeed}

class KeyRunsSuite extends MullionSuite {
  private def attributes(types: DataType*): Seq[Attribute] =
    types.zipWithIndex.map { case (t, i) => AttributeReference(s"c$i", t)() }

  private def text(value: String): Any = if (value.isEmpty) null else UTF8String.fromString(value)

  private def hash(keys: Seq[Attribute], row: InternalRow): Long =
    BindReferences.bindReference[Expression](new XxHash64(keys), keys).eval(row).asInstanceOf[Long]

  private final class Held(val key: UnsafeRow) {
    var rows: Vector[Int] = Vector.empty
  }

  /** The keys in the order in which they were left, with the numbers of their rows. */
  private def runs(keys: Seq[Attribute], rows: Seq[InternalRow]): Seq[(UnsafeRow, Seq[Int])] = {
    val of = new KeyRuns[Held](keys, keys)(new Held(_))
    val left = Seq.newBuilder[Held]
    rows.zipWithIndex.foreach { case (row, i) =>
      left ++= of.complete(row)
      of.current().rows :+= i
    }
    left ++= of.remaining()
    left.result().map(held => held.key -> held.rows)
  }

  private def assertWhole(keys: Seq[Attribute], rows: Seq[InternalRow], number: InternalRow => Long): Unit = {
    val toKey = UnsafeProjection.create(keys, keys)
    val sorted = rows.sortBy(number)
    val results = runs(keys, sorted)
    val wanted = sorted.zipWithIndex.groupMap(r => toKey(r._1).copy())(_._2)
    assertEquals(results.length, wanted.size, "a key was left more than once, or never")
    assertEquals(results.toMap, wanted.map { case (k, v) => k -> v.toSeq })
  }

  test("keys that differ in where a null is have one hash, and each is left once with all its rows") {
    val keys = attributes(StringType, StringType)
    val (left, right) = (InternalRow(text("a"), null), InternalRow(null, text("a")))
    assertEquals(hash(keys, left), hash(keys, right))
    val results = runs(keys, Seq(left, right, left, right, InternalRow(text("b"), text("b"))))
    assertEquals(results.map(_._2), Seq(Seq(0, 2), Seq(1, 3), Seq(4)))
  }

  test("no list, an empty one and one of nulls are three keys of one hash") {
    val keys = attributes(ArrayType(IntegerType))
    val rows = Seq(InternalRow(null), InternalRow(ArrayData.toArrayData(Array.empty[Any]))) ++
      Seq(1, 2).map(n => InternalRow(ArrayData.toArrayData(Array.fill[Any](n)(null))))
    assertEquals(rows.map(hash(keys, _)).distinct.length, 1)
    assertWhole(keys, rows ++ rows.reverse ++ rows, hash(keys, _))
  }

  test("keys that were chosen to have one hash are kept apart") {
    val keys = attributes(LongType, LongType)
    val chosen = (1L to 50L).map(a => InternalRow(a, Collisions.second(a, 1L, 7L)))
    assertEquals(chosen.map(hash(keys, _)).distinct.length, 1)
    val random = new Random(3)
    assertWhole(keys, Seq.fill(20)(random.shuffle(chosen)).flatten, hash(keys, _))
  }

  test("random keys with nulls: each is left once, whatever shares its hash") {
    val seed = TestSeed.value
    val random = new Random(seed)
    val keys = attributes(StringType, StringType, LongType)
    def part() = text(random.nextInt(4) match { case 0 | 1 => ""; case 2 => "a"; case _ => "b" })
    val rows = Seq.fill(2000)(InternalRow(part(), part(), if (random.nextBoolean()) null else random.nextInt(3).toLong))
    clue(seed)
    assertWhole(keys, rows, hash(keys, _))
    // Rows may be sorted by less than the hash: all keys of one number are kept then.
    assertWhole(keys.take(1), rows.map(r => InternalRow(r.get(0, StringType))), hash(keys.take(1), _))
  }

  test("keys of no columns are one key") {
    assertEquals(runs(Nil, Seq.fill(3)(InternalRow.empty)).map(_._2), Seq(Seq(0, 1, 2)))
  }

  test("the bytes of keys group rows whose keys have no order and equal hashes") {
    val keys = attributes(MapType(StringType, StringType), StringType, StringType)
    val map = ArrayBasedMapData(Array[Any](text("x")), Array[Any](text("y")))
    val rows =
      Seq(InternalRow(map, text("a"), null), InternalRow(map, null, text("a")), InternalRow(null, text("a"), null))
    val bytes = BindReferences.bindReference[Expression](KeyBytes(keys), keys)
    def of(row: InternalRow) = bytes.eval(row).asInstanceOf[Array[Byte]].toSeq
    assertEquals(rows.map(of).distinct.length, 3)
    assertEquals(rows.map(row => of(row.copy())), rows.map(of))
  }
}

/** Pairs of numbers with equal hashes in Spark's XxHash64, whose steps for a number are invertible. */
private object Collisions {
  private val P1 = 0x9e3779b185ebca87L
  private val P2 = 0xc2b2ae3d27d4eb4fL
  private val P5 = 0x27d4eb2f165667c5L

  /** `b` for which `(a, b)` has the hash of `(ofA, ofB)`. */
  def second(a: Long, ofA: Long, ofB: Long): Long = {
    def seed(n: Long) = XXH64.hashLong(n, 42L) + P5 + 8L
    val mixed = java.lang.Long.rotateLeft(ofB * P2, 31) * P1
    val wanted = seed(ofA) ^ mixed ^ seed(a)
    java.lang.Long.rotateRight(wanted * inverse(P1), 31) * inverse(P2)
  }

  /** The inverse modulo 2 to the 64 of a number that is not even. */
  private def inverse(n: Long): Long = Iterator.iterate(n)(x => x * (2L - n * x)).drop(6).next()
}
