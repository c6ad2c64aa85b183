package org.apache.spark.sql.mullion.operator.partial

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.expressions.codegen._

/** The code with which a function adds a row.
  *
  * @param mayBeNull
  *   whether a buffer may become null, so that null bits must be written
  * @param words
  *   the variables with words of columns that it reads
  */
private[partial] final case class Update(code: String, mayBeNull: Boolean, words: Seq[VariableValue])

private[partial] object CodegenSplit {

  /** The variables that the code of expressions reads, if a method can have as many parameters. */
  def inputs(
      ctx: CodegenContext,
      expressions: Seq[Expression],
      common: Map[org.apache.spark.sql.catalyst.expressions.ExpressionEquals, SubExprEliminationState],
      digits: Seq[VariableValue]
  ): Option[Seq[VariableValue]] = {
    val read = expressions
      .flatMap(CodeGenerator.getLocalInputVariableValues(ctx, _, common)._1)
      .distinct ++ digits
    // The record takes three more of the JVM's parameter words.
    val words = CodeGenerator.calculateParamLengthFromExprValues(read) + 3
    val isPlain = !common.values.exists(s => s.eval.value.isInstanceOf[SimpleExprValue])
    Option.when(isPlain && CodeGenerator.isValidParamLength(words))(read)
  }
}
