package org.apache.spark.sql.mullion.calls

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.mullion.checkpoint.Recovery
import org.apache.spark.sql.mullion.shim.Classic
import org.apache.spark.sql.types.LongType

/** Recovers a checkpoint when it runs, because a plan may be analysed several times. */
private[calls] final case class RecoverCommand(checkpoint: String) extends LeafRunnableCommand {
  override val output: Seq[Attribute] = Seq(AttributeReference("batches", LongType, nullable = false)())

  override def run(session: SparkSession): Seq[Row] = Seq(Row(Recovery.recover(Classic.session(session), checkpoint)))
}
