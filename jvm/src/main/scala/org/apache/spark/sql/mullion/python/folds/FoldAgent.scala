package org.apache.spark.sql.mullion.python.folds

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** The body of one agent, over the events of a batch in a partition. */
private[folds] final class FoldAgent(
    val number: Int,
    event: FoldEvent,
    locals: Array[Value],
    tables: Seq[FoldTable],
    last: LastRange,
    steps: Array[FoldStep]
) {

  /** Goes through events, in order, and changes its tables; what Python is to be told of them. None, and its tables as
    * they were, where only Python can.
    */
  def run(rows: Array[UnsafeRow]): Option[Seq[AgentOutput]] = {
    val output = mutable.ArrayBuffer.empty[AgentOutput]
    try {
      var i = 0
      while (i < rows.length) {
        event.take(rows(i))
        last.forget()
        // What a variable was for another event is not known to any other.
        locals.foreach(_.unset())
        FoldStep.run(steps, rows(i), output)
        i += 1
      }
      tables.foreach(_.check())
      Some(output.toSeq)
    } catch {
      case Odd =>
        tables.foreach(_.discard())
        None
    }
  }
}

/** What an agent prints or yields for an event: Python does that, with what it cannot know.
  *
  * @param number
  *   which statement
  * @param values
  *   what tables and variables are there, as a list in JSON
  */
private[folds] final case class AgentOutput(row: UnsafeRow, number: Int, values: String)

/** A statement. */
private[folds] abstract class FoldStep {
  def run(row: UnsafeRow, output: mutable.ArrayBuffer[AgentOutput]): Unit
}

private[folds] object FoldStep {
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
