package org.apache.spark.sql.mullion.request

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.mullion.checkpoint.recover.Recovery
import org.apache.spark.sql.mullion.shim.Classic
import org.apache.spark.sql.types.LongType
import org.apache.spark.sql.{Row, SparkSession}

/** Recovers a checkpoint when it runs, because a plan may be analysed several times. */
private[request] final case class RecoverCommand(checkpoint: String) extends LeafRunnableCommand {
  override val output: Seq[Attribute] = Seq(AttributeReference("batches", LongType, nullable = false)())

  override def run(session: SparkSession): Seq[Row] = Seq(Row(Recovery.recover(Classic.session(session), checkpoint)))
}
