package org.apache.spark.sql.mullion.state.btree

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite

class SortPrefixSuite extends PropertySuite {
  import SortPrefixSuite._

  property("numbers are those that were put in and not removed, whether all are the same or not") {
    forAll(Gen.listOf(change)) { changes =>
      var numbers = new SortPrefix
      var model = Vector.empty[Long]
      changes.foreach {
        case Insert(at, number) =>
          val i = at % (model.size + 1)
          if (model.size < Room) {
            numbers.insert(i, number, model.size, Room)
            model = (model.take(i) :+ number) ++ model.drop(i)
          }
        case Remove(at, count) =>
          val from = at % (model.size + 1)
          val until = Math.min(model.size, from + count)
          numbers.remove(from, until, model.size)
          model = model.take(from) ++ model.drop(until)
        case Split(at) =>
          val i = at % (model.size + 1)
          val right = new SortPrefix
          right.append(numbers, i, model.size - i, 0, Room)
          numbers.set(numbers, i, Room)
          assertEquals((i until model.size).map(k => right(k - i)), model.drop(i))
          // Reassembled, with one more in between.
          if (model.size < Room) {
            numbers.insert(i, 3L, i, Room)
            numbers.append(right, 0, model.size - i, i + 1, Room)
            model = (model.take(i) :+ 3L) ++ model.drop(i)
          } else numbers.append(right, 0, model.size - i, i, Room)
        case Copy =>
          val previous = numbers
          numbers = new SortPrefix
          numbers.set(previous, model.size, Room)
      }
      assertEquals(model.indices.map(numbers(_)), model)
    }
  }

  test("while all are the same they take nothing") {
    val numbers = new SortPrefix
    (0 until Room).foreach(i => assert(!numbers.insert(i / 2, 7L, i, Room)))
    assertEquals(numbers.footprint, 0L)
    numbers.remove(0, 1, Room)
    assert(numbers.insert(3, 8L, Room - 1, Room))
    assertEquals(numbers.footprint, Leaf.sizeOf(8 * Room))
    val left = new SortPrefix
    left.set(numbers, 3, Room)
    assertEquals(left.footprint, 0L)
  }
}

object SortPrefixSuite {
  private final val Room = 128

  sealed trait Change
  final case class Insert(at: Int, number: Long) extends Change
  final case class Remove(at: Int, count: Int) extends Change
  final case class Split(at: Int) extends Change
  case object Copy extends Change

  private val at = Gen.choose(0, Room)

  // Mostly one number.
  private val change: Gen[Change] = Gen.frequency(
    20 -> Gen.zip(at, Gen.frequency(20 -> Gen.const(7L), 1 -> Gen.choose(6L, 8L))).map((Insert.apply _).tupled),
    4 -> Gen.zip(at, Gen.choose(0, 20)).map((Remove.apply _).tupled),
    1 -> at.map(Split.apply),
    1 -> Gen.const(Copy)
  )
}
