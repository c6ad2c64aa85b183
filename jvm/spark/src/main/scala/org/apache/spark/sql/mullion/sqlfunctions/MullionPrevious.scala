package org.apache.spark.sql.mullion.sqlfunctions

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.types.DataType

import dev.mullion.MullionException

// scalastyle:off line.size.limit
@ExpressionDescription(
  usage = """
    _FUNC_(aggregate) - Returns the value of `aggregate` in the pane of the same key that closed before. Only in the aggregates of windows.
  """,
  arguments = """
    Arguments:
      * aggregate - an aggregate, such as sum(v), or an expression over aggregates and keys.
  """,
  examples = """
    Examples:
      > SELECT total - before AS change FROM mullion_windowed(TABLE(SELECT timestamp_seconds(s) AS ts, v FROM VALUES (1, 2), (11, 5) AS rows(s, v)), window => 'tumbling', size => '10 seconds', time => 'ts', aggregates => 'sum(v) AS total, _FUNC_(sum(v)) AS before') ORDER BY total;
       NULL
       3
      > SELECT rose FROM mullion_windowed(TABLE(SELECT timestamp_seconds(s) AS ts, v FROM VALUES (1, 2), (11, 5) AS rows(s, v)), window => 'tumbling', size => '10 seconds', time => 'ts', aggregates => 'max(v) > _FUNC_(max(v)) AS rose') ORDER BY rose;
       NULL
       true
  """,
  note = """
    The result is null for the first pane of a key, and in all firings before the close.
  """,
  group = "agg_funcs",
  since = "0.1.0"
)
// scalastyle:on line.size.limit
case class MullionPrevious(child: Expression) extends UnaryExpression with CodegenFallback {
  override def prettyName: String = "mullion_previous"

  override def dataType: DataType = child.dataType

  override def nullable: Boolean = true

  override def foldable: Boolean = false

  /** Windows replace it, so only other queries evaluate it. */
  override def eval(input: InternalRow): Any = throw MullionException.invalid(
    s"$prettyName(...) is used outside of windows: only panes have a pane before them. Use it in the aggregates of windowed(...)."
  )

  override protected def withNewChildInternal(newChild: Expression): MullionPrevious = copy(newChild)
}
