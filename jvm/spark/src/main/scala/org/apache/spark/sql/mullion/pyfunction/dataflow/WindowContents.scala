package org.apache.spark.sql.mullion.pyfunction.dataflow

import scala.collection.mutable

import org.json4s.JValue

import org.apache.spark.sql.mullion.pyfunction.expression.{Columns, Item, Layout, Operator, Untranslatable, Value}

/** Values that came, column by column, all of one layout. */
private[dataflow] final class Rows(val columns: Columns, val layout: Layout) {
  val singles: Array[Columns] = columns.singles.toArray

  def item(row: Int): Item = columns.item(row)
}

/** Layouts of a task, each of them once, so that they are compared as objects. */
private[dataflow] final class Layouts {
  private val known = mutable.HashMap.empty[Layout, Layout]

  def apply(layout: Layout): Layout = known.getOrElseUpdate(layout, layout)

  def rows(columns: Columns): Rows = new Rows(columns, apply(columns.layout))
}

/** What one window holds: values of one layout, which may become another. */
private[dataflow] final class Held(var layout: Layout, var values: Array[Value]) {

  /** Nothing at all, as `None` is. */
  def isNothing: Boolean = (layout eq Layout.Single) && values(0).kind == Value.Nothing

  def set(function: Function): Unit = {
    if (!(layout eq function.layout)) {
      layout = function.layout
      values = Array.fill(layout.size)(new Value)
    }
    var i = 0
    while (i < values.length) {
      values(i).set(function.results(i))
      i += 1
    }
  }

  def set(rows: Rows, row: Int): Unit = {
    if (!(layout eq rows.layout)) {
      layout = rows.layout
      values = Array.fill(layout.size)(new Value)
    }
    var i = 0
    while (i < values.length) {
      rows.singles(i).read(row, values(i))
      i += 1
    }
  }

  def set(other: Held): Unit = {
    layout = other.layout
    values = other.values
  }

  def item: Item = layout.item(values, 0)
}

/** A function over what a window holds and a row, made anew for each pair of layouts. */
private[dataflow] final class OfHeldAndRow(reader: FunctionReader, layouts: Layouts) {
  private val held = new Given.Held
  private val row = new Given.Row
  private val made = mutable.HashMap.empty[(Layout, Layout), Function]
  private var last = Option.empty[(Layout, Layout, Function)]

  def call(of: Held, rows: Rows, number: Int): Function = {
    val function = last match {
      case Some((one, other, known)) if (one eq of.layout) && (other eq rows.layout) => known
      case _                                                                         =>
        val found = made.getOrElseUpdate(
          (of.layout, rows.layout), {
            val one = reader.over(of.layout -> held, rows.layout -> row)
            new Function(layouts(one.layout), one.results)
          }
        )
        last = Some((of.layout, rows.layout, found))
        found
    }
    held.of(of.values)
    row.at(rows.singles, number)
    function.call()
    function
  }
}

/** The same over what two windows hold. */
private[dataflow] final class OfTwoHeld(reader: FunctionReader, layouts: Layouts) {
  private val (one, other) = (new Given.Held, new Given.Held)
  private val made = mutable.HashMap.empty[(Layout, Layout), Function]

  def call(first: Held, second: Held): Function = {
    val function = made.getOrElseUpdate(
      (first.layout, second.layout), {
        val found = reader.over(first.layout -> one, second.layout -> other)
        new Function(layouts(found.layout), found.results)
      }
    )
    one.of(first.values)
    other.of(second.values)
    function.call()
    function
  }
}

/** A function over a row that gives one value. */
private[dataflow] final class OfRow(reader: FunctionReader) {
  private val row = new Given.Row
  private val made = mutable.HashMap.empty[Layout, Function]
  private var last = Option.empty[(Layout, Function)]

  def call(rows: Rows, number: Int): Value = {
    val function = last match {
      case Some((layout, known)) if layout eq rows.layout => known
      case _                                              =>
        val found = made.getOrElseUpdate(rows.layout, reader.over(rows.layout -> row))
        last = Some((rows.layout, found))
        found
    }
    row.at(rows.singles, number)
    function.single()
  }
}

/** A function over what a window holds that gives one value. */
private[dataflow] final class OfHeld(reader: FunctionReader) {
  private val held = new Given.Held
  private val made = mutable.HashMap.empty[Layout, Function]

  def call(of: Held): Value = {
    val function = made.getOrElseUpdate(of.layout, reader.over(of.layout -> held))
    held.of(of.values)
    function.single()
  }
}

/** What windows hold, as `bytewax/_key_windows/contents.py` has it: what one window of a key does. */
private[dataflow] sealed abstract class WindowContents {
  def add(rows: Rows, row: Int): Unit

  /** Takes what a window held that was merged into this one. */
  def merge(other: WindowContents): Unit

  /** What it gives as it closes. */
  def closed: Item

  def snapshot: Item
}

/** Makes what a window holds: of a new one, or of one that was kept. */
private[dataflow] abstract class MakeContents {
  def fresh(): WindowContents

  def kept(state: Item): WindowContents
}

private[dataflow] object MakeContents {

  /** @param said
    *   `{"kind": "fold" | "reduce" | "max" | "min" | "collect", ...}`
    */
  def apply(said: JValue, initial: => Item, layouts: Layouts): MakeContents = {
    def reader(name: String) = new FunctionReader(said \ name)
    said \ "kind" match {
      case org.json4s.JString("fold")    => new Folding(initial, reader("folder"), reader("merger"), layouts)
      case org.json4s.JString("reduce")  => new Reducing(reader("reducer"), layouts)
      case org.json4s.JString("max")     => new Choosing(reader("by"), isMax = true, layouts)
      case org.json4s.JString("min")     => new Choosing(reader("by"), isMax = false, layouts)
      case org.json4s.JString("collect") => Collecting
      case other                         => throw new IllegalArgumentException(s"$other is nothing that a window holds")
    }
  }

  private def heldOf(item: Item, layouts: Layouts): Held = {
    val layout = layouts(Layout.of(item))
    val values = Array.fill(layout.size)(new Value)
    layout.spread(item, values, 0)
    new Held(layout, values)
  }

  private final class Folding(initial: Item, folder: FunctionReader, merger: FunctionReader, layouts: Layouts)
      extends MakeContents
      with Combining {
    private val fold = new OfHeldAndRow(folder, layouts)
    private val both = new OfTwoHeld(merger, layouts)

    override def fresh(): WindowContents = kept(initial)

    override def kept(state: Item): WindowContents = new One(heldOf(state, layouts), this)

    override def add(held: Held, rows: Rows, row: Int): Unit = held.set(fold.call(held, rows, row))

    override def merge(held: Held, other: Held): Unit = held.set(both.call(held, other))
  }

  /** Adds to what is held, and merges it. */
  private sealed trait Combining {
    def add(held: Held, rows: Rows, row: Int): Unit

    def merge(held: Held, other: Held): Unit
  }

  private final class One(val held: Held, of: Combining) extends WindowContents {
    override def add(rows: Rows, row: Int): Unit = of.add(held, rows, row)

    override def merge(other: WindowContents): Unit = other match {
      case one: One => of.merge(held, one.held)
      case _        => throw Untranslatable
    }

    override def closed: Item = held.item

    override def snapshot: Item = held.item
  }

  /** Values become one: the first, and then what comes of it and the next. */
  private abstract class Ones(layouts: Layouts) extends MakeContents with Combining {
    protected def more(held: Held, rows: Rows, row: Int): Unit

    override def fresh(): WindowContents = kept(Item.Nothing)

    override def kept(state: Item): WindowContents = new One(heldOf(state, layouts), this)

    override def add(held: Held, rows: Rows, row: Int): Unit =
      if (held.isNothing) held.set(rows, row) else more(held, rows, row)
  }

  private final class Reducing(reducer: FunctionReader, layouts: Layouts) extends Ones(layouts) {
    private val reduce = new OfHeldAndRow(reducer, layouts)
    private val both = new OfTwoHeld(reducer, layouts)

    override protected def more(held: Held, rows: Rows, row: Int): Unit = held.set(reduce.call(held, rows, row))

    override def merge(held: Held, other: Held): Unit = held.set(both.call(held, other))
  }

  /** The largest or the least: the first of those that are. */
  private final class Choosing(by: FunctionReader, isMax: Boolean, layouts: Layouts) extends Ones(layouts) {
    private val (ofRow, ofHeld, ofOther) = (new OfRow(by), new OfHeld(by), new OfHeld(by))

    private def isBetter(one: Value, than: Value) =
      if (isMax) Operator.isLess(than, one) else Operator.isLess(one, than)

    override protected def more(held: Held, rows: Rows, row: Int): Unit =
      if (isBetter(ofRow.call(rows, row), ofHeld.call(held))) held.set(rows, row)

    override def merge(held: Held, other: Held): Unit =
      if (isBetter(ofOther.call(other), ofHeld.call(held))) held.set(other)
  }

  private object Collecting extends MakeContents {
    override def fresh(): WindowContents = new Collected(mutable.ArrayBuffer.empty)

    override def kept(state: Item): WindowContents = state match {
      case Item.Many(items) => new Collected(mutable.ArrayBuffer.from(items))
      case _                => throw Untranslatable
    }

    private final class Collected(val items: mutable.ArrayBuffer[Item]) extends WindowContents {
      override def add(rows: Rows, row: Int): Unit = items += rows.item(row)

      override def merge(other: WindowContents): Unit = other match {
        case collected: Collected => items ++= collected.items
        case _                    => throw Untranslatable
      }

      override def closed: Item = Item.Many(items.toArray)

      override def snapshot: Item = Item.Many(items.toArray)
    }
  }
}
