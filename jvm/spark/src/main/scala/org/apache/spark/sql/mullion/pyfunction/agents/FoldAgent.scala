package org.apache.spark.sql.mullion.pyfunction.agents

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.pyfunction.expression.{Operator, Untranslatable, Value}

/** The body of one agent, over the events of a batch in a partition. */
private[agents] final class FoldAgent(
    val number: Int,
    event: FoldEvent,
    locals: Array[Value],
    tables: Seq[FoldTable],
    last: LastRange,
    steps: Array[FoldStep]
) {

  /** Processes events in order, and changes the agent's tables. Returns its output for Python; none, with unchanged
    * tables, if only Python can process them.
    */
  def run(rows: Array[UnsafeRow]): Option[Seq[AgentOutput]] = {
    val output = mutable.ArrayBuffer.empty[AgentOutput]
    try {
      var i = 0
      while (i < rows.length) {
        event.take(rows(i))
        last.forget()
        // Variables do not survive their event.
        locals.foreach(_.unset())
        FoldStep.run(steps, rows(i), output)
        i += 1
      }
      tables.foreach(_.check())
      Some(output.toSeq)
    } catch {
      case Untranslatable =>
        tables.foreach(_.discard())
        None
    }
  }
}

/** A statement that prints or yields for an event: Python executes it, with the values that it lacks.
  *
  * @param number
  *   of the statement
  * @param values
  *   of tables and variables, as a list in JSON
  */
private[agents] final case class AgentOutput(row: UnsafeRow, number: Int, values: String)

/** A statement. */
private[agents] abstract class FoldStep {
  def run(row: UnsafeRow, output: mutable.ArrayBuffer[AgentOutput]): Unit
}

private[agents] object FoldStep {
  def run(steps: Array[FoldStep], row: UnsafeRow, output: mutable.ArrayBuffer[AgentOutput]): Unit = {
    var i = 0
    while (i < steps.length) {
      steps(i).run(row, output)
      i += 1
    }
  }

  final class Update(
      event: FoldEvent,
      table: FoldTable,
      key: Expression,
      operator: Option[Operator],
      value: Expression
  ) extends FoldStep {
    override def run(row: UnsafeRow, output: mutable.ArrayBuffer[AgentOutput]): Unit = {
      key.compute()
      event.requireOwn(key)
      value.compute()
      table.update(key, event.us, operator, value)
    }
  }

  final class Branch(test: Expression, yes: Array[FoldStep], no: Array[FoldStep]) extends FoldStep {
    override def run(row: UnsafeRow, output: mutable.ArrayBuffer[AgentOutput]): Unit = {
      test.compute()
      FoldStep.run(if (test.isTrue) yes else no, row, output)
    }
  }

  final class Let(local: Value, value: Expression) extends FoldStep {
    override def run(row: UnsafeRow, output: mutable.ArrayBuffer[AgentOutput]): Unit = {
      value.compute()
      local.set(value)
    }
  }

  final class Tell(number: Int, values: Array[Expression]) extends FoldStep {
    override def run(row: UnsafeRow, output: mutable.ArrayBuffer[AgentOutput]): Unit = {
      values.foreach(_.compute())
      output += AgentOutput(row, number, values.map(TableRecords.text(_)).mkString("[", ",", "]"))
    }
  }
}
