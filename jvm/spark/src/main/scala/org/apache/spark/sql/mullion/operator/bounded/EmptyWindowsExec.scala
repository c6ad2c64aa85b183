package org.apache.spark.sql.mullion.operator.bounded

import java.time.Instant

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.mullion.operator.engine.accumulators.Accumulators

import dev.mullion.MullionException
import dev.mullion.windows.rules.{AlignedRules, EmptyWindows}
import dev.mullion.windows.spec.TimeMath

/** On a batch DataFrame: adds an empty partial row for each window without rows between windows of its key with rows.
  * The partial rows of a key are in order of their slices.
  *
  * @param functions
  *   whose buffers are at the end of the partial rows
  */
case class EmptyWindowsExec(
    keys: Seq[Attribute],
    slice: Attribute,
    rules: AlignedRules,
    functions: Seq[AggregateFunction],
    child: SparkPlan
) extends KeyInOrderExec {

  override protected def order: Attribute = slice

  override def output: Seq[Attribute] = child.output

  override protected def doExecute(): RDD[InternalRow] = {
    val (input, key, of, pane, grid) = (child.output, keys, functions, rules, rules.grid)
    val buffersFrom = input.length - of.flatMap(_.aggBufferAttributes).length
    val sliceAt = input.indexWhere(_.exprId == slice.exprId)
    child.execute().mapPartitions { rows =>
      val keyOf = UnsafeProjection.create(key, input)
      val nothing = new Accumulators(of, Nil, input, buffersFrom).empty
      val both = new JoinedRow()
      val ofNothing = UnsafeProjection.create(input.zipWithIndex.map { case (a, i) =>
        BoundReference(
          if (i < buffersFrom) i else i - buffersFrom + input.length,
          a.dataType,
          nullable = true
        ): Expression
      })
      var current = Option.empty[UnsafeRow]
      var next = 0L
      rows.flatMap { row =>
        val slice = row.getLong(sliceAt)
        val rowKey = keyOf(row)
        val continues = current.contains(rowKey)
        if (!continues) current = Some(rowKey.copy())
        val from = next
        next = if (continues) Math.max(next, grid.lastWindow(slice) + 1) else grid.lastWindow(slice) + 1
        val until = grid.firstWindow(slice)
        if (continues && TimeMath.minus(until, from) > EmptyWindows.mostAtOnce)
          throw EmptyWindowsExec.tooMany(
            pane,
            grid.windowEnd(from - 1),
            grid.windowStart(until),
            TimeMath.minus(until, from)
          )
        val here = row.asInstanceOf[UnsafeRow].copy()
        val gap = if (continues) Iterator.iterate(from)(_ + 1).takeWhile(_ < until) else Iterator.empty
        // The first slice of a window is in no later window, and in none before the key's first.
        Iterator.single[InternalRow](here) ++ gap.map { window =>
          val filled = ofNothing(both(here, nothing))
          filled.setLong(sliceAt, grid.firstSlice(window))
          filled
        }
      }
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): EmptyWindowsExec = copy(child = newChild)

  override def simpleString(maxFields: Int): String = s"$nodeName ${rules.window.describe}"
}

object EmptyWindowsExec {
  private def tooMany(rules: AlignedRules, from: Long, until: Long, windows: Long): MullionException =
    MullionException.invalid(
      s"There are $windows windows without rows between two rows of one key, from ${instant(from)} to " +
        s"${instant(until)} (${rules.window.describe}), and the limit is ${EmptyWindows.mostAtOnce}. Is a row's time wrong? Keep such " +
        "rows out, or use longer windows, or emit no windows without rows."
    )

  private def instant(micros: Long): Instant = DateTimeUtils.microsToInstant(micros)
}
