package org.apache.spark.sql.mullion.operator.engine.output

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.mullion.expressions.columns.PaneColumns
import org.apache.spark.sql.mullion.expressions.rows.Projections
import org.apache.spark.sql.mullion.expressions.udf.FailedAggregate
import org.apache.spark.sql.mullion.operator.engine.PaneProgram
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.MullionException
import dev.mullion.windows.key.PaneId
import dev.mullion.windows.rules.{FiringKind, PaneRules}

/** The kinds of firing, with their names in the output. */
object Firing {
  val Close: UTF8String = named(FiringKind.Close)
  val Early: UTF8String = named(FiringKind.Early)
  val Running: UTF8String = UTF8String.fromString("running")
  val Late: UTF8String = UTF8String.fromString("late")
  val Ahead: UTF8String = UTF8String.fromString("ahead")

  private val early = named(FiringKind.Early)
  private val onTime = named(FiringKind.OnTime)
  private val update = named(FiringKind.Update)

  def of(kind: FiringKind): UTF8String = kind match {
    case FiringKind.Early  => early
    case FiringKind.OnTime => onTime
    case FiringKind.Update => update
    case FiringKind.Close  => Close
  }

  private def named(kind: FiringKind): UTF8String = UTF8String.fromString(kind.name)
}

/** The identity that a firing reports for its pane: its id, and the ids of the panes merged into it since it opened or
  * last fired.
  */
private[operator] final case class PaneName(id: String, merged: Seq[String])

private[operator] object PaneName {

  /** The identity while ids are off. */
  val none: PaneName = PaneName("", Nil)

  def apply(id: String): PaneName = PaneName(id, Nil)
}

/** Builds output rows: keys, `window`, `pane`, aggregate results, and `late_row` if late rows are emitted.
  *
  * @param keyLayout
  *   the columns of the rows with the keys
  * @param keys
  *   the key columns, among them
  * @param notes
  *   the types of the columns that accumulators have after their buffers
  * @param rules
  *   whether firings report the ids of panes, and their form
  */
final class PaneOutput(
    keyLayout: Seq[Attribute],
    keys: Seq[Attribute],
    notes: Seq[DataType],
    functions: Seq[AggregateFunction],
    functionResults: Seq[Attribute],
    results: Seq[NamedExpression],
    lateRow: Option[DataType],
    rules: PaneRules
) {

  /** True if panes have ids. */
  val ids: Boolean = rules.refinements.ids

  private val paneType = PaneColumns.paneType(ids)
  private val byRange = rules.window.sharesStarts
  private val windowColumn = AttributeReference("window", PaneColumns.windowType, nullable = false)()
  private val paneColumn = AttributeReference("pane", paneType, nullable = false)()
  private val facts = Seq(windowColumn, paneColumn)

  private val ofFunctions = new FunctionValues(functions, functionResults)

  private def accumulator: Seq[Attribute] =
    functions.flatMap(_.aggBufferAttributes) ++ notes.map(AttributeReference("note", _)())

  /** The results, over an accumulator and the values of imperative functions. */
  private def evaluated: Seq[Expression] = results.map(ofFunctions.over)

  /** Over keys, facts, an accumulator at work and the values of imperative functions, in that order. */
  private lazy val paneProjection: UnsafeProjection = {
    val input = keyLayout ++ facts ++ accumulator ++ functionResults
    val columns = (keys ++ facts) ++ evaluated ++ lateRow.map(Literal(None.orNull, _))
    Projections(columns, input)
  }

  /** A reusable row. Its preparation pays off only after `Few` firings. */
  private lazy val writtenOver: Option[FiringRow] =
    if (ids || ofFunctions.areImperative) None
    else
      FiringRow.of(
        keyLayout,
        keys,
        accumulator,
        evaluated,
        columns = keys.length + facts.length + results.length + lateRow.size
      )
  private var rowsBuilt = 0
  // Whether the last row was the reusable one, whose firing kind is then `last`.
  private var isWrittenOver = false

  // Written without generated code: that boxes the fields of a struct, and each task would generate it.
  private val window = UnsafeRow.createFromByteArray(24, 2)
  private lazy val paneColumns = UnsafeProjection.create(paneType)
  // Consecutive firings are usually of one kind.
  private var last = Firing.Close
  private var fired = paneOf(last)
  private val factsRow = new GenericInternalRow(2)
  private val pane = new PaneRow(factsRow, ofFunctions.values)

  private def paneOf(firing: UTF8String): UnsafeRow =
    if (ids) paneColumns(InternalRow(firing, 0, UTF8String.EMPTY_UTF8, noneMerged)).copy()
    else {
      val pane = new UnsafeRowWriter(2)
      pane.resetRowWriter()
      pane.write(0, firing)
      pane.write(1, 0)
      pane.getRow
    }

  private lazy val noneMerged = ArrayData.toArrayData(Array.empty[Any])

  /** The identity of a pane that is identified by its window. */
  def nameOf(start: Long, end: Long): PaneName =
    if (!ids) PaneName.none else PaneName(if (byRange) PaneId.ofRange(start, end) else PaneId.ofWindow(start, end))

  /** The identity of a pane that late rows opened: see [[PaneId.reopened]]. */
  def nameOfReopened(start: Long, end: Long, batch: Long, number: Long = 0L): PaneName =
    if (!ids) PaneName.none else PaneName(PaneId.reopened(nameOf(start, end).id, batch, number))

  /** A firing of a pane that is identified by its window. The row is valid until the next one. */
  def fire(keys: InternalRow, start: Long, end: Long, firing: UTF8String, seq: Int, work: InternalRow): UnsafeRow =
    fire(keys, start, end, firing, seq, nameOf(start, end), work)

  /** A firing of a pane.
    *
    * @param keys
    *   a row of `keyLayout`
    * @param work
    *   the accumulator at work
    */
  def fire(
      keys: InternalRow,
      start: Long,
      end: Long,
      firing: UTF8String,
      seq: Int,
      name: PaneName,
      work: InternalRow
  ): UnsafeRow = keys match {
    case key: UnsafeRow
        if isWrittenOver && (last eq firing) && work.isInstanceOf[UnsafeRow] && writtenOver.get.fits(key) =>
      writtenOver.get(key, start, end, seq, work.asInstanceOf[UnsafeRow])
    case _ =>
      val row = project(keys, start, end, firing, seq, name, work)
      rowsBuilt += 1
      if (rowsBuilt >= PaneOutput.Few && writtenOver.isDefined) {
        writtenOver.get.begin(row)
        isWrittenOver = true
      }
      row
  }

  private def idOf(id: String): UTF8String =
    UTF8String.fromString(PaneId.ofGeneration(id, rules.refinements.generation))

  private def project(
      keys: InternalRow,
      start: Long,
      end: Long,
      firing: UTF8String,
      seq: Int,
      name: PaneName,
      work: InternalRow
  ): UnsafeRow = {
    try ofFunctions.evaluate(work)
    catch {
      case e: MullionException =>
        throw FailedAggregate.in(new PaneNames(this.keys, rules, keyLayout)(start, end, keys), e)
    }
    window.setLong(0, start)
    window.setLong(1, end)
    if (ids) {
      val merged =
        if (name.merged.isEmpty) noneMerged else ArrayData.toArrayData(name.merged.iterator.map(idOf).toArray[Any])
      fired = paneColumns(InternalRow(firing, seq, idOf(name.id), merged))
    } else {
      if (last ne firing) {
        last = firing
        fired = paneOf(firing)
      }
      fired.setInt(1, seq)
    }
    factsRow.update(0, window)
    factsRow.update(1, fired)
    paneProjection(pane.of(keys, work))
  }
}

object PaneOutput {

  /** The number of rows after which a task uses the reusable one. */
  private[operator] final val Few = 64

  /** The output of a window's panes. */
  def of(program: PaneProgram, keyLayout: Seq[Attribute], notes: Seq[DataType]): PaneOutput =
    of(program, keyLayout, notes, program.functions)

  /** @param functions
    *   the aggregate functions of the engine
    */
  def of(
      program: PaneProgram,
      keyLayout: Seq[Attribute],
      notes: Seq[DataType],
      functions: Seq[AggregateFunction]
  ): PaneOutput = {
    import program.{functionResults, keys, lateRow, results, rules}
    new PaneOutput(keyLayout, keys, notes, functions, functionResults, results, lateRow.map(_.dataType), rules)
  }
}

/** A pane's key, facts, accumulator at work and values of imperative functions, side by side. It has its own reads for
  * the same reason as [[JoinedNumbers]].
  */
private[operator] final class PaneRow(facts: InternalRow, values: InternalRow) extends JoinedRow {
  private val keyAndFacts = new JoinedRow()
  private val buffersAndValues = new JoinedRow()
  private val factsWidth = facts.numFields
  private var key = InternalRow.empty
  private var work = InternalRow.empty
  private var factsAt = 0
  private var buffersAt = 0
  private var valuesAt = 0

  def of(key: InternalRow, work: InternalRow): this.type = {
    this.key = key
    this.work = work
    factsAt = key.numFields
    buffersAt = factsAt + factsWidth
    valuesAt = buffersAt + work.numFields
    apply(keyAndFacts(key, facts), buffersAndValues(work, values))
    this
  }

  override def isNullAt(i: Int): Boolean =
    if (i < factsAt) key.isNullAt(i)
    else if (i < buffersAt) facts.isNullAt(i - factsAt)
    else if (i < valuesAt) work.isNullAt(i - buffersAt)
    else values.isNullAt(i - valuesAt)

  override def getLong(i: Int): Long =
    if (i < factsAt) key.getLong(i)
    else if (i < buffersAt) facts.getLong(i - factsAt)
    else if (i < valuesAt) work.getLong(i - buffersAt)
    else values.getLong(i - valuesAt)

  override def getStruct(i: Int, fields: Int): InternalRow =
    if (i < factsAt) key.getStruct(i, fields)
    else if (i < buffersAt) facts.getStruct(i - factsAt, fields)
    else if (i < valuesAt) work.getStruct(i - buffersAt, fields)
    else values.getStruct(i - valuesAt, fields)
}

/** Builds the output rows of late rows, which have no pane. */
final class LateOutput(
    layout: Seq[Attribute],
    keys: Seq[Attribute],
    results: Seq[NamedExpression],
    lateRow: NamedExpression,
    pane: DataType,
    firing: UTF8String
) {
  private val projection = UnsafeProjection.create(LateOutput.columns(keys, results, lateRow, pane, firing), layout)

  def apply(row: InternalRow): UnsafeRow = projection(row)
}

object LateOutput {

  /** The output columns of a late row, or of one that is too far ahead.
    *
    * @param pane
    *   the type of the column `pane`, which only has the kind of firing
    */
  def columns(
      keys: Seq[Expression],
      results: Seq[NamedExpression],
      lateRow: NamedExpression,
      pane: DataType,
      firing: UTF8String
  ): Seq[Expression] =
    (keys :+ Literal(None.orNull, PaneColumns.windowType) :+ paneOf(pane, firing)) ++
      results.map(r => Literal(None.orNull, r.dataType)) :+ lateRow

  private def paneOf(pane: DataType, firing: UTF8String): Expression = CreateNamedStruct(pane match {
    case StructType(fields) =>
      fields.toSeq.flatMap { field =>
        Seq(
          Literal(field.name),
          if (field.name == "firing") Literal(firing, StringType) else Literal(None.orNull, field.dataType)
        )
      }
    case other => throw new IllegalStateException(s"a pane of type ${other.sql}")
  })
}
