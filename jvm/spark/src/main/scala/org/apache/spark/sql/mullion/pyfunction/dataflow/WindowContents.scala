package org.apache.spark.sql.mullion.pyfunction.dataflow

import scala.collection.mutable

import org.json4s.JValue

import org.apache.spark.sql.mullion.pyfunction.expression.{Columns, Item, Layout, Operator, Untranslatable, Value}

/** Values of one layout, in columns. */
private[dataflow] final class Rows(val columns: Columns, val layout: Layout) {
  val singles: Array[Columns] = columns.singles.toArray

  def item(row: Int): Item = columns.item(row)
}

/** The layouts of a task. Equal layouts are one object, so that `eq` compares them. */
private[dataflow] final class Layouts {
  private val layouts = mutable.HashMap.empty[Layout, Layout]

  def apply(layout: Layout): Layout = layouts.getOrElseUpdate(layout, layout)

  def rows(columns: Columns): Rows = new Rows(columns, apply(columns.layout))
}

/** The values of one window. Their layout may change. */
private[dataflow] final class Held(var layout: Layout, var values: Array[Value]) {

  /** True for `None`. */
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

/** A function of a window's values and a row, compiled for each pair of layouts. */
private[dataflow] final class OfHeldAndRow(reader: FunctionReader, layouts: Layouts) {
  private val state = new Given.Held
  private val row = new Given.Row
  private val functions = mutable.HashMap.empty[(Layout, Layout), Function]
  private var last = Option.empty[(Layout, Layout, Function)]

  def call(of: Held, rows: Rows, number: Int): Function = {
    val function = last match {
      case Some((one, other, cached)) if (one eq of.layout) && (other eq rows.layout) => cached
      case _                                                                          =>
        val compiled = functions.getOrElseUpdate(
          (of.layout, rows.layout), {
            val one = reader.over(of.layout -> state, rows.layout -> row)
            new Function(layouts(one.layout), one.results)
          }
        )
        last = Some((of.layout, rows.layout, compiled))
        compiled
    }
    state.of(of.values)
    row.at(rows.singles, number)
    function.call()
    function
  }
}

/** A function of the values of two windows. */
private[dataflow] final class OfTwoHeld(reader: FunctionReader, layouts: Layouts) {
  private val (one, other) = (new Given.Held, new Given.Held)
  private val functions = mutable.HashMap.empty[(Layout, Layout), Function]

  def call(first: Held, second: Held): Function = {
    val function = functions.getOrElseUpdate(
      (first.layout, second.layout), {
        val result = reader.over(first.layout -> one, second.layout -> other)
        new Function(layouts(result.layout), result.results)
      }
    )
    one.of(first.values)
    other.of(second.values)
    function.call()
    function
  }
}

/** A function of a row with a single result. */
private[dataflow] final class OfRow(reader: FunctionReader) {
  private val row = new Given.Row
  private val functions = mutable.HashMap.empty[Layout, Function]
  private var last = Option.empty[(Layout, Function)]

  def call(rows: Rows, number: Int): Value = {
    val function = last match {
      case Some((layout, cached)) if layout eq rows.layout => cached
      case _                                               =>
        val compiled = functions.getOrElseUpdate(rows.layout, reader.over(rows.layout -> row))
        last = Some((rows.layout, compiled))
        compiled
    }
    row.at(rows.singles, number)
    function.single()
  }
}

/** A function of a window's values with a single result. */
private[dataflow] final class OfHeld(reader: FunctionReader) {
  private val state = new Given.Held
  private val functions = mutable.HashMap.empty[Layout, Function]

  def call(of: Held): Value = {
    val function = functions.getOrElseUpdate(of.layout, reader.over(of.layout -> state))
    state.of(of.values)
    function.single()
  }
}

/** The contents of one window of a key, as in `bytewax/_key_windows/contents.py`. */
private[dataflow] sealed abstract class WindowContents {
  def add(rows: Rows, row: Int): Unit

  /** Adds the contents of a window that is merged into this one. */
  def merge(other: WindowContents): Unit

  /** The result when the window closes. */
  def closed: Item

  def snapshot: Item
}

/** A factory of contents, for new windows and for stored state. */
private[dataflow] abstract class MakeContents {
  def fresh(): WindowContents

  def restore(state: Item): WindowContents
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

    override def fresh(): WindowContents = restore(initial)

    override def restore(state: Item): WindowContents = new One(heldOf(state, layouts), this)

    override def add(state: Held, rows: Rows, row: Int): Unit = state.set(fold.call(state, rows, row))

    override def merge(state: Held, other: Held): Unit = state.set(both.call(state, other))
  }

  /** Adds values to a state, and merges states. */
  private sealed trait Combining {
    def add(state: Held, rows: Rows, row: Int): Unit

    def merge(state: Held, other: Held): Unit
  }

  private final class One(val state: Held, of: Combining) extends WindowContents {
    override def add(rows: Rows, row: Int): Unit = of.add(state, rows, row)

    override def merge(other: WindowContents): Unit = other match {
      case one: One => of.merge(state, one.state)
      case _        => throw Untranslatable
    }

    override def closed: Item = state.item

    override def snapshot: Item = state.item
  }

  /** A reduction: the first value, and then the combination with each next one. */
  private abstract class Ones(layouts: Layouts) extends MakeContents with Combining {
    protected def more(state: Held, rows: Rows, row: Int): Unit

    override def fresh(): WindowContents = restore(Item.Nothing)

    override def restore(state: Item): WindowContents = new One(heldOf(state, layouts), this)

    override def add(state: Held, rows: Rows, row: Int): Unit =
      if (state.isNothing) state.set(rows, row) else more(state, rows, row)
  }

  private final class Reducing(reducer: FunctionReader, layouts: Layouts) extends Ones(layouts) {
    private val reduce = new OfHeldAndRow(reducer, layouts)
    private val both = new OfTwoHeld(reducer, layouts)

    override protected def more(state: Held, rows: Rows, row: Int): Unit = state.set(reduce.call(state, rows, row))

    override def merge(state: Held, other: Held): Unit = state.set(both.call(state, other))
  }

  /** The first of the largest or smallest values. */
  private final class Choosing(by: FunctionReader, isMax: Boolean, layouts: Layouts) extends Ones(layouts) {
    private val (ofRow, ofHeld, ofOther) = (new OfRow(by), new OfHeld(by), new OfHeld(by))

    private def isBetter(one: Value, than: Value) =
      if (isMax) Operator.isLess(than, one) else Operator.isLess(one, than)

    override protected def more(state: Held, rows: Rows, row: Int): Unit =
      if (isBetter(ofRow.call(rows, row), ofHeld.call(state))) state.set(rows, row)

    override def merge(state: Held, other: Held): Unit =
      if (isBetter(ofOther.call(other), ofHeld.call(state))) state.set(other)
  }

  private object Collecting extends MakeContents {
    override def fresh(): WindowContents = new Collected(mutable.ArrayBuffer.empty)

    override def restore(state: Item): WindowContents = state match {
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
