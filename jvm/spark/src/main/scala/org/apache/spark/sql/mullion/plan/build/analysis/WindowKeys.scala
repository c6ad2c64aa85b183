package org.apache.spark.sql.mullion.plan.build.analysis

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.util.{CollationFactory, UnsafeRowUtils}
import org.apache.spark.sql.classic.DataFrame
import org.apache.spark.sql.mullion.expressions.columns.KeyColumns
import org.apache.spark.sql.mullion.expressions.rows.SortedMap
import org.apache.spark.sql.mullion.plan.Shown
import org.apache.spark.sql.mullion.shim.MapSorting
import org.apache.spark.sql.types._

import dev.mullion.MullionException
import dev.mullion.windows.spec.Setting

/** The keys of panes.
  *
  * @param grouping
  *   the grouping expressions after Spark's analysis
  * @param names
  *   the names of the keys: Spark's analysis strips their aliases in an aggregate
  * @param columns
  *   the grouping columns of the node. They have their own names, because normalised floats and sorted maps differ from
  *   the input's values; without keys there is a constant one
  */
private[mullion] final case class WindowKeys(grouping: Seq[NamedExpression], names: Seq[String], columns: Seq[Alias]) {

  /** The columns of the user's keys. */
  def named: Seq[Alias] = if (grouping.isEmpty) Nil else columns

  /** The column for each grouping expression above the node. */
  def columnOf: Map[ExprId, Attribute] = grouping.map(_.exprId).zip(columns.map(_.toAttribute)).toMap
}

private[mullion] object WindowKeys {

  /** @param input
    *   the input of Spark's aggregate
    */
  private[mullion] def apply(
      df: DataFrame,
      by: Seq[Column],
      grouping: Seq[NamedExpression],
      input: LogicalPlan
  ): WindowKeys = {
    val names = namesOf(df, by)
    val columns =
      if (grouping.isEmpty) Seq(Alias(Literal(0), KeyColumns.noKey)())
      else grouping.zip(names).map { case (g, name) => column(normalised(Shown.unalias(g), input), name) }
    WindowKeys(grouping, names, columns)
  }

  private[mullion] def namesOf(df: DataFrame, by: Seq[Column]): Seq[String] =
    if (by.isEmpty) Nil else df.select(by: _*).queryExecution.analyzed.output.map(_.name)

  /** A key is a value, not the time of its pane: its column loses the watermark, which stays with the rows. */
  private def column(key: Expression, name: String): Alias =
    Alias(key, name)(nonInheritableMetadataKeys = Seq(EventTimeWatermark.delayKey, SessionWindow.marker))

  /** A normalised key, so that equal values are equal: `0.0` for `-0.0`, maps sorted by key.
    *
    * @param inSpark
    *   Spark's own rule that sorts the maps in grouping expressions, which applies to entire plans
    */
  def normalised(
      key: Expression,
      input: LogicalPlan,
      inSpark: LogicalPlan => LogicalPlan = MapSorting.inGroups(_)
  ): Expression = {
    def sorted: Option[Expression] = inSpark(Aggregate(Seq(key), Seq(Alias(key, "key")()), input)) match {
      case Aggregate(Seq(group: Attribute), _, Project(columns, _), _) =>
        columns.collectFirst { case alias: Alias if alias.exprId == group.exprId => alias.child }
      case Aggregate(Seq(group), _, _, _) => Some(group)
      case _                              => None
    }
    val inOrder =
      if (!holdsMaps(key.dataType)) key
      else
        sorted.map(_.transform { case sort: MapSort => SortedMap(sort.base) }).filter(sortsMaps).getOrElse {
          // Otherwise equal maps would be as many keys as there are orders of their entries.
          throw MullionException.unsupported(
            s"The key ${CallText.plain(key).sql} holds a map (${key.dataType.sql}), and Mullion does not support the rule by " +
              "which this Spark sorts maps: equal maps would be different keys. Group by the entries of the map " +
              "in order, array_sort(map_entries(...))."
          )
        }
    NormalizeFloatingNumbers.normalize(inOrder)
  }

  /** Rejects keys of types that Spark cannot compare, with a form of them that it can. */
  private[build] def checkTypes(df: DataFrame, by: Seq[Column]): Unit = if (by.nonEmpty)
    df.select(by: _*).queryExecution.analyzed.output.foreach { key =>
      comparable(key.dataType).foreach { form =>
        throw MullionException.unsupported(
          s"The key ${key.name} is of type ${key.dataType.sql}, whose values Spark cannot compare. Group by ${form(key.name)}."
        )
      }
    }

  /** A comparable form of a key, if Spark cannot compare the key itself. Types are matched by name: not every version
    * of Spark has all of them.
    */
  private[build] def comparable(kind: DataType): Option[String => Setting] = {
    def nameOf(part: DataType) = part.typeName.takeWhile(_ != '(')
    def isPlace(part: DataType) = Set("geometry", "geography")(nameOf(part))
    if (isPlace(kind)) Some(name => Setting.expression(s"st_asbinary($name)", name))
    else if (kind.existsRecursively(isPlace)) Some(name => Setting.same(s"st_asbinary(...) of each value in $name"))
    else if (kind.existsRecursively(nameOf(_) == "variant")) Some(name => Setting.expression(s"to_json($name)", name))
    else None
  }

  private def holdsMaps(kind: DataType): Boolean = kind.existsRecursively {
    case _: MapType              => true
    case udt: UserDefinedType[_] => holdsMaps(udt.sqlType)
    case _                       => false
  }

  private def sortsMaps(key: Expression): Boolean = key.exists(_.isInstanceOf[SortedMap])

  /** The reason why the bytes of a key do not identify it, if any. */
  def whyUnstable(key: NamedExpression): Option[MullionException] =
    Option.unless(UnsafeRowUtils.isBinaryStable(key.dataType)) {
      val column = s"CAST(${key.name} AS ${plain(key.dataType).sql})"
      val (of, meaning) = collationOf(key.dataType) match {
        case Some("UTF8_LCASE")        => s"lower($column)" -> ", one key for texts that differ in their case alone"
        case Some("UTF8_BINARY_RTRIM") =>
          s"rtrim($column)" -> ", one key for texts that differ in spaces at their end"
        case _ => column -> ": texts that differ in any byte are then different keys"
      }
      MullionException.unsupported(
        s"The key ${key.name} has a collation under which different texts are equal (${key.dataType.sql}), and state is looked " +
          s"up by its bytes. Group by ${Setting.expression(of, key.name)}$meaning."
      )
    }

  private def collationOf(kind: DataType): Option[String] = kind match {
    case text: StringType => Some(CollationFactory.fetchCollation(text.collationId).collationName)
    case _                => None
  }

  /** The same type with texts that are equal iff their bytes are. */
  private def plain(kind: DataType): DataType = kind match {
    case _: StringType      => StringType
    case array: ArrayType   => array.copy(elementType = plain(array.elementType))
    case map: MapType       => map.copy(plain(map.keyType), plain(map.valueType))
    case fields: StructType =>
      StructType(fields.map(f => f.copy(dataType = plain(f.dataType), metadata = Metadata.empty)))
    case other => other
  }
}
