package org.apache.spark.sql.mullion.expressions.udf

import java.time.ZoneOffset.UTC

import org.json4s.{DefaultFormats, Formats, JObject}
import org.json4s.jackson.JsonMethods.parse

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{
  AggregateExpression,
  ImperativeAggregate,
  TypedImperativeAggregate
}
import org.apache.spark.sql.catalyst.plans.logical.Aggregate
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.expressions.columns.KeyColumns
import org.apache.spark.sql.mullion.shim.PythonFrames
import org.apache.spark.sql.types._

import dev.mullion.MullionException

/** A `PythonAggregate` of a pane: rows and accumulators, of which a Python UDF above the operator computes the result.
  *
  * {{{
  *   Project [finish(Quantiles(v))]        a UDF over the operator's output: merges, adds the remaining rows, finishes
  *     WindowExec [Quantiles(v)]           state: accumulators as bytes, and rows that wait
  *       [shuffle by key]
  *         AddRowsExec                     adds the rows of large groups: one request for many groups
  *           partial aggregate             collects the rows of each slice and key
  * }}}
  *
  * Few rows wait as they are, because a Python call and an accumulator for each small group would cost more. A buffer
  * that has gathered many rows or accumulators becomes one accumulator, by a request to the Python worker of its task.
  *
  * @param time
  *   the time of rows, if they are added in its order; they then wait until the pane fires
  * @param addsEarly
  *   true where state is updated row by row, without a partial aggregate
  */
final case class PythonAggregate(
    call: PythonAggregate.Call,
    arguments: Seq[Expression],
    time: Option[Expression],
    addsEarly: Boolean = false,
    mutableAggBufferOffset: Int = 0,
    inputAggBufferOffset: Int = 0
) extends TypedImperativeAggregate[PaneRows] {
  import PythonAggregate._

  override def children: Seq[Expression] = arguments ++ time

  override def nullable: Boolean = false

  /** The type of a row. Columns may be null: rows come through state. */
  @transient lazy val rowType: StructType = StructType(call.columns.zip(arguments).map { case (name, argument) =>
    StructField(name, argument.dataType)
  })

  override lazy val dataType: DataType = new StructType()
    .add("accumulators", ArrayType(BinaryType, containsNull = false), nullable = false)
    .add("rows", ArrayType(rowType, containsNull = false), nullable = false)

  override def prettyName: String = call.name

  override def sql: String = text(arguments.map(_.sql))

  override def sql(isDistinct: Boolean): String = if (isDistinct) super.sql(isDistinct) else sql

  override protected def flatArguments: Iterator[Any] = arguments.iterator ++ call.parameters

  override def toString: String = text(arguments.map(_.toString))

  private def text(of: Seq[String]): String = textOf(call.name, of ++ call.parameters)

  @transient private lazy val toRow = UnsafeProjection.create(arguments)

  override def createAggregationBuffer(): PaneRows = new PaneRows(arguments.length)

  override def update(pane: PaneRows, input: InternalRow): PaneRows = {
    val at = time.fold(0L)(_.eval(input) match {
      case us: Long => us
      case _        => Long.MinValue
    })
    pane.addRow(at, toRow(input).copy())
    if (addsEarly) compactIf(pane, isGrown(pane))
    else compactIf(pane, pane.rowCount >= MostRows || pane.rowBytes >= MostBytes)
  }

  override def merge(pane: PaneRows, other: PaneRows): PaneRows = {
    pane.addAll(other)
    compactIf(pane, isGrown(pane))
  }

  private def isGrown(pane: PaneRows): Boolean =
    pane.rowCount >= 4 * call.waitingRows || pane.rowBytes >= WaitingBytes ||
      (pane.accumulatorCount >= Accumulators && pane.accumulatorCount >= Accumulators + spread(pane))

  /** A number of 0 to 7 that spreads the requests of panes that grow alike over several batches. */
  private def spread(pane: PaneRows): Int = java.util.Arrays.hashCode(pane.accumulator(0)) & 7

  private def compactIf(pane: PaneRows, isLarge: Boolean): PaneRows = {
    if (isLarge && canAdd && TaskContext.get() != null) pane.become(AggregateWorker.of(this).add(pane))
    pane
  }

  /** True if rows may be added before the pane fires. */
  def canAdd: Boolean = time.isEmpty

  /** True if the rows in the bytes of a buffer are to be added before the shuffle. */
  def hasManyRows(bytes: Array[Byte]): Boolean = canAdd && PaneRows.rowCountOf(bytes) >= call.waitingRows

  override def eval(pane: PaneRows): Any = {
    if (call.addsAtEnd && (pane.rowCount > 0 || pane.accumulatorCount > 1)) {
      val buffer = createAggregationBuffer()
      buffer.become(AggregateWorker.of(this).add(pane))
      result(buffer)
    } else result(pane)
  }

  private def result(pane: PaneRows): InternalRow =
    new GenericInternalRow(
      Array[Any](pane.accumulatorsAsArray, new GenericArrayData(pane.rowsInOrder(time.isDefined).toArray[Any]))
    )

  override def serialize(pane: PaneRows): Array[Byte] = pane.toBytes

  override def deserialize(bytes: Array[Byte]): PaneRows = PaneRows.fromBytes(arguments.length, bytes)

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate = copy(mutableAggBufferOffset = offset)

  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate = copy(inputAggBufferOffset = offset)

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): PythonAggregate =
    copy(
      arguments = newChildren.take(arguments.length),
      time = time.map(_ => newChildren.last)
    )
}

object PythonAggregate {

  /** The number of rows from which a group's rows are added before the shuffle. */
  val Setting = "spark.sql.mullion.pythonAggregate.waitingRows"
  private val UnlessSet = "64"

  /** With `false`, aggregates that only count, add and compare run in Python too. */
  private val Translate = "spark.sql.mullion.pythonAggregate.translate"

  // A request has a fixed cost, so that it adds many rows; and few accumulators wait, because each batch writes them again.
  private val MostRows = 8192
  private val MostBytes = 1L << 20
  private val WaitingBytes = 64L << 10
  private val Accumulators = 8

  /** A call of a Python aggregate.
    *
    * @param columns
    *   the names of its columns, for Python
    * @param parameters
    *   its parameters as text
    * @param code
    *   the function of the worker
    * @param addsAtEnd
    *   true if the UDF above the operator cannot add rows: Spark 4.0 has no UDFs over Arrow arrays
    */
  final case class Call(
      name: String,
      columns: Seq[String],
      parameters: Seq[String],
      waitingRows: Int,
      code: PythonFrames.Code,
      addsAtEnd: Boolean,
      artifacts: Option[String]
  )

  /** The JSON that Python passes as the first argument of the placeholder.
    *
    * @param places
    *   the file and line of methods
    */
  private final case class Described(
      aggregate: String,
      parameters: Seq[String],
      ordered: Boolean,
      addsAtEnd: Boolean,
      translated: Option[JObject],
      places: Map[String, String]
  )

  private def textOf(name: String, arguments: Seq[String]) = arguments.mkString(s"$name(", ", ", ")")

  private implicit val formats: Formats = DefaultFormats
  private val Marker = "{\"aggregate\":"

  /** An aggregation with Python aggregates in place of their placeholders. A placeholder is a pandas aggregate function
    * of a JSON text and a struct of the columns: so Spark's analysis resolves the columns, in a classic session and on
    * a Spark Connect server alike.
    *
    * @param time
    *   the event time of rows, if they have one
    */
  def in(aggregate: Aggregate, time: Option[Expression]): Aggregate = aggregate
    .transformExpressions {
      case udf @ PythonUDF(_, _, _, Seq(AggregateExpression(Placeholder(_, json, columns), _, _, None, _)), _, _, _) =>
        inJvm(json, columns, udf.dataType).getOrElse(udf)
    }
    .transformExpressions { case e @ AggregateExpression(Placeholder(udaf, json, columns), _, _, _, _) =>
      e.copy(aggregateFunction = apply(udaf, json, columns, time))
    }
    .asInstanceOf[Aggregate]

  /** The input of the UDF that computes a result: with the pane's window and keys, which errors name. */
  def withPane(result: Expression, window: Expression, keys: Seq[Attribute]): Expression = {
    def named(name: String, of: Expression) = Seq(Literal(name), of)
    val parts = Seq("accumulators", "rows").zipWithIndex.flatMap { case (name, i) =>
      named(name, GetStructField(result, i))
    }
    val key = KeyColumns.named(keys).flatMap(key => named(key.name, ToPrettyString(key, Some(UTC.getId))))
    val all = CreateNamedStruct(
      parts ++ named("window", window) ++ (if (key.isEmpty) Nil else named("key", CreateNamedStruct(key)))
    )
    If(IsNull(result), Literal(None.orNull, all.dataType), all)
  }

  /** A result over aggregates of Spark, if the JVM computes the same as Python. */
  private def inJvm(json: String, columns: CreateNamedStruct, result: DataType): Option[Expression] = {
    val described = parse(json).extract[Described]
    val name = described.aggregate
    def method(of: String) = TranslatedMethod(s"$name.$of", described.places.getOrElse(of, "an unknown line"))
    val call = textOf(name, columns.valExprs.map(_.sql) ++ described.parameters)
    described.translated
      .filter(_ => translates)
      .flatMap(
        new TranslatedAggregate(call, method("add_row"), method("finish"), _, columns.valExprs, result).expression
      )
  }

  private object Placeholder {
    def unapply(udaf: PythonUDAF): Option[(PythonUDAF, String, CreateNamedStruct)] = udaf.children match {
      case Seq(Literal(json, StringType), columns: CreateNamedStruct) if json.toString.startsWith(Marker) =>
        Some((udaf, json.toString, columns))
      case _ => None
    }
  }

  private def apply(
      udaf: PythonUDAF,
      json: String,
      columns: CreateNamedStruct,
      time: Option[Expression]
  ): PythonAggregate = {
    val described = parse(json).extract[Described]
    if (described.ordered && time.isEmpty)
      throw MullionException.invalid(
        s"${described.aggregate} adds rows in the order of their times (ordered=True), and time=None. Name the time in " +
          "windowed(..., time='ts'), or leave ordered out: windows of row numbers add rows in the order of arrival."
      )
    val call = Call(
      described.aggregate,
      columns.nameExprs.map(_.eval().toString),
      described.parameters,
      waitingRows,
      PythonFrames.Code(udaf.name, udaf.func),
      described.addsAtEnd,
      PythonFrames.currentArtifacts
    )
    val of = PythonAggregate(call, columns.valExprs, time.filter(_ => described.ordered))
    checkTypes(of)
    of
  }

  private def translates: Boolean = {
    val text = SQLConf.get.getConfString(Translate, "true")
    text.trim.toBooleanOption.getOrElse(
      throw MullionException.invalid(
        s"$Translate=$text is neither true nor false: set one of them (the default is true)."
      )
    )
  }

  private def waitingRows: Int = {
    val text = SQLConf.get.getConfString(Setting, UnlessSet)
    text.trim.toIntOption
      .filter(_ > 0)
      .getOrElse(
        throw MullionException.invalid(
          s"$Setting=$text is not a number of rows: set it to 1 or more (the default is $UnlessSet)."
        )
      )
  }

  private def checkTypes(of: PythonAggregate): Unit = {
    val twice = of.call.columns.diff(of.call.columns.distinct).headOption
    twice.foreach { name =>
      throw MullionException.invalid(
        s"${of.call.name} has two columns named '$name', and its rows are read by name. Rename one, as in " +
          s"F.col('$name').alias('${name}_2')."
      )
    }
    of.rowType.foreach { field =>
      try PythonFrames.checkTypes(StructType(Seq(field)))
      catch {
        case _: Exception =>
          throw MullionException.unsupported(
            s"The column ${field.name} of ${of.call.name} is of type ${field.dataType.sql}, which has no Arrow type to reach " +
              "Python with. Cast it to another type."
          )
      }
    }
  }
}
