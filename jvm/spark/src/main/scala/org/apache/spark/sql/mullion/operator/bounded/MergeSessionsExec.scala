package org.apache.spark.sql.mullion.operator.bounded

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.SparkPlan

import dev.mullion.windows.rules.SessionRules
import dev.mullion.windows.spec.TimeMath

/** On a batch DataFrame: replaces the slice of each partial row by the start of its session. The rows of a key are in
  * order of their first time, so a session ends before the first row that starts after its end.
  *
  * @param extras
  *   the columns of a partial row with its first time, its last, and its number of rows; the last time is replaced by
  *   the end of the row's own session, whose maximum is the end of the merged one
  */
case class MergeSessionsExec(
    keys: Seq[Attribute],
    slice: Attribute,
    gap: Option[Attribute],
    extras: Seq[Attribute],
    start: Attribute,
    rules: SessionRules,
    child: SparkPlan
) extends KeyInOrderExec {

  override protected def order: Attribute = extras.head

  override def output: Seq[Attribute] =
    child.output.filterNot(a => gap.exists(_.exprId == a.exprId)).map(a => if (a.exprId == slice.exprId) start else a)

  override def producedAttributes: AttributeSet = AttributeSet(start)

  override protected def doExecute(): RDD[InternalRow] = {
    val (input, from, fixed) = (child.output, start, rules.window.gap)
    val last = extras(1)
    val end = AttributeReference("end", last.dataType)()
    val columns: Seq[Expression] = output.map(a => if (a.exprId == last.exprId) end else a)
    val at = extras.take(2).map(e => input.indexWhere(_.exprId == e.exprId))
    val gapAt = gap.map(g => input.indexWhere(_.exprId == g.exprId))
    val key = keys
    child.execute().mapPartitions { rows =>
      val keyOf = UnsafeProjection.create(key, input)
      val project = UnsafeProjection.create(columns, input ++ Seq(from, end))
      val added = new GenericInternalRow(2)
      val both = new JoinedRow()
      var current = Option.empty[UnsafeRow]
      var first = 0L
      var until = 0L
      rows.map { row =>
        val rowFirst = row.getLong(at.head)
        val rowEnd = TimeMath.plus(row.getLong(at(1)), fixed.getOrElse(row.getLong(gapAt.get)))
        val rowKey = keyOf(row)
        if (!current.contains(rowKey) || rowFirst > until) {
          if (!current.contains(rowKey)) current = Some(rowKey.copy())
          first = rowFirst
          until = rowEnd
        } else until = Math.max(until, rowEnd)
        added.update(0, first)
        added.update(1, rowEnd)
        project(both(row, added))
      }
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): MergeSessionsExec = copy(child = newChild)

  override def simpleString(maxFields: Int): String = s"$nodeName ${rules.window.describe}"
}
