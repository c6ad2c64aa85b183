package org.apache.spark.sql.mullion.pyfunction.agents

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression => CatalystExpression, _}
import org.apache.spark.sql.mullion.pyfunction.state.{CallCounts, KeyedState}
import org.apache.spark.sql.mullion.shim.{SparkVersionShim, SpillLimits}
import org.apache.spark.sql.types.{IntegerType, StringType}
import org.apache.spark.unsafe.types.UTF8String

/** Runs translated agents in the task itself, before the function that runs the others in Python. Both use the same
  * table records, so each can continue the other's work.
  *
  * {{{
  *   rows - by agent - in order of arrival - translated:  tables change here  - printed or yielded values -+
  *                                         - others, and unsupported batches ------------------------------+- Python
  * }}}
  *
  * An agent's batch runs here completely or not at all: if one event is unsupported, Python processes all of them.
  * Without work for Python, it is not called, and stale ranges are removed here.
  *
  * @param layout
  *   the columns of the rows
  * @param input
  *   the columns passed to Python
  */
private[pyfunction] final class Folds(
    program: FoldProgram,
    layout: Seq[Attribute],
    input: Seq[Attribute],
    state: KeyedState,
    wallUs: Long,
    spill: SpillLimits
) {
  import Folds._

  private val last = new LastRange
  private val tables = FoldProgram.tables(program, state, last)
  private val agents = FoldProgram.agents(program, layout, tables, last, wallUs)
  private val agentAt = layout.indexWhere(_.name == "_agent")
  private val positionAt = layout.indexWhere(_.name == "_position")

  /** The remaining rows for Python, in its input format; with `begins` it is called in any case. */
  def over(rows: Iterator[InternalRow], begins: Boolean, calls: CallCounts): Left = {
    val toPython = UnsafeProjection.create(input, layout)
    val forPython = SparkVersionShim.spillable(spill)
    val buffers = agents.map(_.number -> Array.newBuilder[UnsafeRow]).toMap
    var hasRows = false
    rows.foreach { row =>
      hasRows = true
      buffers.get(row.getInt(agentAt)) match {
        case Some(own) => own += unsafe(row)
        case None      => forPython.add(toPython(row))
      }
    }
    agents.foreach { agent =>
      val own = buffers(agent.number).result()
      java.util.Arrays.sort(own, byPosition)
      agent.run(own) match {
        case Some(output) =>
          calls.folded += own.length
          output.foreach(one => forPython.add(telling(one)))
        case None => own.foreach(row => forPython.add(toPython(row)))
      }
    }
    tables.foreach(_.save())
    val called =
      begins || !forPython.isEmpty || state.isDue || (hasRows && program.begins.exists(state.get(_) eq null)) ||
        FoldTable.expire(tables, state)
    Left(forPython.generateIterator(), called)
  }

  private val byPosition: java.util.Comparator[UnsafeRow] = (one, other) =>
    java.lang.Long.compare(one.getLong(positionAt), other.getLong(positionAt))

  private val copying = UnsafeProjection.create(layout.map(_.dataType).toArray)

  /** A row that remains valid. */
  private def unsafe(row: InternalRow): UnsafeRow = row match {
    case already: UnsafeRow => already.copy()
    case other              => copying(other).copy()
  }

  private lazy val withTold: UnsafeProjection = {
    val columns = input.map { column =>
      column.name match {
        case Statement => BoundReference(layout.length, IntegerType, nullable = false)
        case Values    => BoundReference(layout.length + 1, StringType, nullable = false)
        case _         => BindReferences.bindReference[CatalystExpression](column, layout)
      }
    }
    UnsafeProjection.create(columns)
  }
  private val joined = new JoinedRow

  private def telling(output: AgentOutput): UnsafeRow =
    withTold(joined(output.row, InternalRow(output.number, UTF8String.fromString(output.values))))
}

private[pyfunction] object Folds {

  /** @param called
    *   whether Python has work
    */
  final case class Left(rows: Iterator[UnsafeRow], called: Boolean)

  /** Columns with the statements that Python executes. */
  private val Statement = "_statement"
  private val Values = "_values"
}
