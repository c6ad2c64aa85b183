package org.apache.spark.sql.mullion.pyfunction.expression

import org.apache.spark.unsafe.types.UTF8String

/** A complete Python value: the contents, the input or the output of a window. */
private[pyfunction] sealed abstract class Item

private[pyfunction] object Item {
  case object Nothing extends Item
  final case class Bool(value: Boolean) extends Item
  final case class Int(value: Long) extends Item

  /** An integer of more than 64 bits, which the JVM does not compute with. */
  final case class Large(value: BigInt) extends Item
  final case class Float(value: Double) extends Item
  final case class Text(value: UTF8String) extends Item

  /** In microseconds since the epoch, in UTC. */
  final case class Time(us: Long) extends Item

  /** In microseconds. */
  final case class Length(us: Long) extends Item
  final case class Tuple(items: Array[Item]) extends Item
  final case class Many(items: Array[Item]) extends Item

  /** A set of numbers. */
  final case class Numbers(items: Array[Long]) extends Item
  final case class Dict(keys: Layout.Names, items: Array[Item]) extends Item

  /** An object of a class.
    *
    * @param plain
    *   whether an attribute is always the entry of its `__dict__`
    */
  final case class Record(kind: String, keys: Layout.Names, items: Array[Item], plain: Boolean) extends Item

  def tuple(items: Item*): Item = Tuple(items.toArray)

  /** Converts a single value of an expression. */
  def of(value: Value): Item = value.kind match {
    case Value.Nothing => Nothing
    case Value.Bool    => Bool(value.long != 0)
    case Value.Int     => Int(value.long)
    case Value.Float   => Float(value.double)
    case Value.Text    => Text(value.text)
    case Value.Time    => Time(value.long)
    case Value.Length  => Length(value.long)
    case _             => throw Untranslatable
  }

  /** Sets a single value of an expression. Throws [[Untranslatable]] for a value with parts. */
  def set(to: Value, of: Item): Unit = of match {
    case Nothing      => to.setNothing()
    case Bool(held)   => to.setBool(held)
    case Int(held)    => to.setInt(held)
    case Float(held)  => to.setFloat(held)
    case Text(held)   => to.setText(held)
    case Time(held)   => to.setTime(held)
    case Length(held) => to.setLength(held)
    case _            => throw Untranslatable
  }
}

/** The layout of a value: its parts, without their values. Two layouts are equal if Python's values have the same types
  * with the same keys in the same order.
  */
private[pyfunction] sealed abstract class Layout {

  /** The number of its single values. */
  def size: Int

  /** The single values of an item of this layout, from `at` on. */
  def spread(item: Item, to: Array[Value], at: Int): Unit

  /** Builds an item from single values. */
  def item(from: Array[Value], at: Int): Item
}

private[pyfunction] object Layout {

  /** Keys in order. */
  final case class Names(list: Vector[String])

  case object Single extends Layout {
    override def size: Int = 1

    override def spread(item: Item, to: Array[Value], at: Int): Unit = Item.set(to(at), item)

    override def item(from: Array[Value], at: Int): Item = Item.of(from(at))
  }

  sealed abstract class Kind
  case object Tuple extends Kind
  case object Many extends Kind
  final case class Dict(names: Names) extends Kind
  final case class Record(of: String, names: Names) extends Kind

  final case class Whole(kind: Kind, parts: Vector[Layout]) extends Layout {
    override val size: Int = parts.map(_.size).sum
    override val hashCode: Int = kind.hashCode * 31 + parts.hashCode
    private val offsets = parts.scanLeft(0)(_ + _.size).toArray

    def offset(part: Int): Int = offsets(part)

    override def spread(item: Item, to: Array[Value], at: Int): Unit = {
      val items = itemsOf(item)
      var i = 0
      while (i < items.length) {
        parts(i).spread(items(i), to, at + offsets(i))
        i += 1
      }
    }

    override def item(from: Array[Value], at: Int): Item = {
      val items = Array.tabulate[Item](parts.length)(i => parts(i).item(from, at + offsets(i)))
      kind match {
        case Tuple             => Item.Tuple(items)
        case Many              => Item.Many(items)
        case Dict(names)       => Item.Dict(names, items)
        case Record(of, names) => Item.Record(of, names, items, plain = true)
      }
    }
  }

  private def itemsOf(item: Item): Array[Item] = item match {
    case Item.Tuple(items)           => items
    case Item.Many(items)            => items
    case Item.Dict(_, items)         => items
    case Item.Record(_, _, items, _) => items
    case _                           => throw Untranslatable
  }

  def of(item: Item): Layout = item match {
    case Item.Tuple(items)                     => Whole(Tuple, items.map(of).toVector)
    case Item.Many(items)                      => Whole(Many, items.map(of).toVector)
    case Item.Dict(names, items)               => Whole(Dict(names), items.map(of).toVector)
    case Item.Record(kind, names, items, true) => Whole(Record(kind, names), items.map(of).toVector)
    case Item.Numbers(_) | _: Item.Record      => throw Untranslatable
    case _                                     => Single
  }
}
