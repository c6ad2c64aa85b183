package org.apache.spark.sql.mullion.state.btree

import scala.util.{Random, Using}

import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.mullion.state.record.{FamilyScan, FamilySpec, RecordCounts, RecordOrder}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.{MullionSuite, TestSeed}

/** Records in memory, with keys of all kinds. */
class RecordsFamilySuite extends MullionSuite {
  import RecordsFamilySuite._

  for {
    (name, types) <- Keys
    order <- Seq(
      RecordOrder.Unordered,
      RecordOrder.WithinKey,
      RecordOrder.ByLast,
      RecordOrder.ByFirst(1),
      RecordOrder.ByFirst(2)
    )
  } test(s"records by $name, kept $order, are those that were put and not removed, in order") {
    val seed = TestSeed.value
    val random = new Random(seed)
    val records = new Kept(types, order)
    var model = Map.empty[Seq[Any], Long]
    (1 to 3000).foreach { step =>
      val key = records.anyKey(random)
      val clue = s"seed $seed, step $step, key $key"
      if (step % 500 == 0) Using.resource(records.family.all()) { scan =>
        scan.foreach { record =>
          val at = records.pair(record)._1
          if (model.contains(at) && random.nextInt(8) > 0) {
            scan.remove()
            model -= at
          }
          if (random.nextInt(100) == 0) model.keys.headOption.foreach { other =>
            records.family.remove(records.row(other))
            model -= other
          }
        }
      }
      assertEquals(records.family.get(records.row(key)).copied.map(_.getLong(0)), model.get(key), clue)
      if (random.nextInt(3) == 0) {
        if (model.contains(key)) records.family.remove(records.row(key))
        model -= key
      } else {
        val value = random.nextLong()
        if (model.contains(key)) records.family.update(records.row(key), valueRow(value))
        else records.family.insert(records.row(key), valueRow(value))
        model += key -> value
      }
    }
    assertEquals(records.all.toMap, model, s"seed $seed")
    val times = records.all.map { case (key, _) => records.spec.times.map(key(_).asInstanceOf[Long]) }
    assertEquals(times, times.sortBy(t => (t.headOption, t.lift(1))), s"seed $seed")
    if (order == RecordOrder.WithinKey) model.keys.map(_.init).toSet.foreach { (key: Seq[Any]) =>
      val expected = model.toSeq
        .collect { case (k, v) if k.init == key && k.last != 3L => k -> v }
        .sortBy(_._1.last.asInstanceOf[Long])
      def ends = (records.row(key :+ 0L).copy(), records.row(key :+ 3L))
      for (scan <- Seq(records.family.range _, records.family.look(_: UnsafeRow, _: UnsafeRow)))
        assertEquals(Using.resource(scan.tupled(ends))(_.map(records.pair).toSeq), expected, s"seed $seed, key $key")
    }
  }

  for (order <- Seq(RecordOrder.Unordered, RecordOrder.WithinKey, RecordOrder.ByLast, RecordOrder.ByFirst(1)))
    test(s"a key derived from its numbers equals the original to the bit, stored $order") {
      val seed = TestSeed.value
      val random = new Random(seed)
      Words.foreach { of =>
        val records = new Kept(Seq(of), order)
        val put = (1 to 500).map { _ =>
          val word = if (random.nextInt(20) == 0) None.orNull else anyWord(of, random)
          val time = Seq.fill(records.spec.key.length - 1)(random.nextLong())
          val key = records.row(if (order == RecordOrder.ByFirst(1)) time :+ word else word +: time).copy()
          records.family.update(key, valueRow(random.nextLong()))
          key
        }
        val remaining = Using.resource(records.family.all())(_.map(_.key.copy()).toSet)
        assertEquals(remaining, put.toSet, s"seed $seed, ${of.sql}")
        put.distinct.foreach(records.family.remove)
        assert(Using.resource(records.family.all())(_.size == 0), s"seed $seed, ${of.sql}")
      }
    }

  test("numbers tell the key where it is one column of eight bytes") {
    val withImplicitKeys = Keys.collect {
      case (name, types) if ImplicitKeys.of(new Kept(types, RecordOrder.ByLast).spec).isDefined => name
    }
    assertEquals(withImplicitKeys, Seq("a number", "a date", "a flag"))
    assertEquals(ImplicitKeys.of(new Kept(Seq(LongType), RecordOrder.ByFirst(2)).spec), None)
  }
}

object RecordsFamilySuite {
  // Few values each, many with common prefixes, and nulls.
  private val Keys: Seq[(String, Seq[DataType])] = Seq(
    "a number" -> Seq(LongType),
    "a date" -> Seq(DateType),
    "a flag" -> Seq(BooleanType),
    "a text" -> Seq(StringType),
    "a long decimal" -> Seq(DecimalType(30, 2)),
    "bytes" -> Seq(BinaryType),
    "a number and a text" -> Seq(LongType, StringType),
    "a text and a number" -> Seq(StringType, IntegerType)
  )

  private val Words: Seq[DataType] = Seq(
    LongType,
    IntegerType,
    ShortType,
    ByteType,
    BooleanType,
    DateType,
    TimestampType,
    FloatType,
    DoubleType,
    DecimalType(18, 4)
  )

  private def anyWord(of: DataType, random: Random): Any = of match {
    case IntegerType | DateType => random.nextInt()
    case ShortType              => random.nextInt().toShort
    case ByteType               => random.nextInt().toByte
    case BooleanType            => random.nextBoolean()
    case FloatType              => java.lang.Float.intBitsToFloat(random.nextInt())
    case DoubleType             => java.lang.Double.longBitsToDouble(random.nextLong())
    case d: DecimalType         => Decimal(random.nextInt().toLong, d.precision, d.scale)
    case _                      => random.nextLong()
  }

  private val valueSchema = new StructType().add("value", LongType, nullable = false)

  private def valueRow(value: Long): UnsafeRow = {
    val row = UnsafeRow.createFromByteArray(16, 1)
    row.setLong(0, value)
    row
  }

  private final class Kept(types: Seq[DataType], order: RecordOrder) {
    private val times = order match {
      case RecordOrder.Unordered   => 0
      case RecordOrder.ByFirst(of) => of
      case _                       => 1
    }
    private val timesFirst = order.isInstanceOf[RecordOrder.ByFirst]
    private val columns = {
      val time = Seq.fill(times)(LongType)
      if (timesFirst) time ++ types else types ++ time
    }
    val spec: FamilySpec = FamilySpec(
      "records",
      StructType(columns.zipWithIndex.map { case (of, i) => StructField(s"c$i", of) }),
      valueSchema,
      order
    )
    private val records = new VersionedBTree(keyCodec = ImplicitKeys.of(spec))
    val family = new RecordsFamily(spec, records, new RecordCounts)
    private val project = UnsafeProjection.create(columns.toArray)

    def anyKey(random: Random): Seq[Any] = {
      val time = Seq.fill(times)(random.nextInt(4).toLong)
      val key = types.map { of =>
        val n = random.nextInt(12)
        if (n == 0) None.orNull
        else
          of match {
            case LongType       => n.toLong - 6
            case IntegerType    => n - 6
            case DateType       => n - 6
            case BooleanType    => n > 6
            case StringType     => UTF8String.fromString("alike" * (n / 4) + n)
            case BinaryType     => Array.fill[Byte](n)(7).toSeq
            case d: DecimalType => Decimal(BigDecimal(n), d.precision, d.scale)
            case other          => throw new IllegalArgumentException(other.sql)
          }
      }
      if (timesFirst) time ++ key else key ++ time
    }

    def row(key: Seq[Any]): UnsafeRow = project(
      new GenericInternalRow(
        key
          .map {
            case bytes: Seq[_] => bytes.map(_.asInstanceOf[Byte]).toArray
            case other         => other
          }
          .toArray[Any]
      )
    )

    def pair(of: FamilyScan): (Seq[Any], Long) = {
      val on = of.key.untilNextCall
      val key = columns.zipWithIndex.map {
        case (_, i) if on.isNullAt(i) => None.orNull
        case (BinaryType, i)          => on.getBinary(i).toSeq
        case (StringType, i)          => on.getUTF8String(i).clone()
        case (dataType, i)            => on.get(i, dataType)
      }
      (key, of.value.getLong(0))
    }

    def all: Seq[(Seq[Any], Long)] = Using.resource(family.all())(_.map(pair).toSeq)
  }
}
