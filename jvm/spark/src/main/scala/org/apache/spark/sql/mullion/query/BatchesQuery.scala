package org.apache.spark.sql.mullion.query

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.encoders.{ExpressionEncoder, RowEncoder}
import org.apache.spark.sql.catalyst.streaming.InternalOutputModes
import org.apache.spark.sql.classic.{DataFrame, Dataset}
import org.apache.spark.sql.execution.streaming.sources.{ForeachBatchSink, PythonForeachBatchFunction}
import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}
import org.apache.spark.util.ManualClock

/** A clock for several queries that a test moves: the trigger clock of each. In milliseconds since the epoch. */
final class TestClock(startMs: Long) {
  private[mullion] val trigger = new ManualClock(startMs)

  def advance(ms: Long): Unit = trigger.advance(ms)
}

/** A streaming query that passes each batch to a Python function, like `DataStreamWriter.foreachBatch`, on a clock that
  * a test moves. `DataStreamWriter` accepts no clock.
  */
object BatchesQuery {

  /** Starts it. With `drain` it ends after it has read all existing rows. */
  def start(
      outputs: Dataset[_],
      name: String,
      checkpoint: String,
      function: PythonForeachBatchFunction,
      clock: TestClock,
      drain: Boolean
  ): StreamingQuery = {
    val df = outputs.toDF()
    val encoder = ExpressionEncoder(RowEncoder.encoderFor(df.schema))
    val batch = (rows: org.apache.spark.sql.Dataset[Row], id: Long) => function.call(rows.asInstanceOf[DataFrame], id)
    outputs.sparkSession.streams.startQuery(
      userSpecifiedName = Some(name),
      userSpecifiedCheckpointLocation = Some(checkpoint),
      df = df,
      extraOptions = Map.empty,
      sink = new ForeachBatchSink[Row](batch, encoder),
      outputMode = InternalOutputModes("append"),
      trigger = if (drain) Trigger.AvailableNow() else Trigger.ProcessingTime(0),
      triggerClock = clock.trigger
    )
  }
}
