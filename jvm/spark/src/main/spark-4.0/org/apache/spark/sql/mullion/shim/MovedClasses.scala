package org.apache.spark.sql.execution.streaming

import org.apache.spark.sql.Encoder
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.{streaming => old}

/** Spark's streaming classes under their names since 4.1; in 4.0 they were in one package. */
package object checkpointing {
  type CheckpointFileManager = old.CheckpointFileManager
  val CheckpointFileManager: old.CheckpointFileManager.type = old.CheckpointFileManager
  type CommitLog = old.CommitLog
  type CommitMetadata = old.CommitMetadata
  val CommitMetadata: old.CommitMetadata.type = old.CommitMetadata
  type FileSystemBasedCheckpointFileManager = old.FileSystemBasedCheckpointFileManager
  type OffsetSeq = old.OffsetSeq
  val OffsetSeq: old.OffsetSeq.type = old.OffsetSeq
  type OffsetSeqLog = old.OffsetSeqLog
}

package object runtime {
  type MemoryStream[A] = old.MemoryStream[A]

  /** Tests construct it from a session; 4.0 requires the session's context. */
  object MemoryStream {
    def apply[A](spark: SparkSession, partitions: Int)(encoder: Encoder[A]): MemoryStream[A] =
      old.MemoryStream[A](partitions)(encoder, spark.sqlContext)
  }
  type MicroBatchExecution = old.MicroBatchExecution
  type MultipleWatermarkPolicy = old.MultipleWatermarkPolicy
  val MultipleWatermarkPolicy: old.MultipleWatermarkPolicy.type = old.MultipleWatermarkPolicy
  type StreamExecution = old.StreamExecution
  val StreamExecution: old.StreamExecution.type = old.StreamExecution
  type StreamingExecutionRelation = old.StreamingExecutionRelation
  val StreamingExecutionRelation: old.StreamingExecutionRelation.type = old.StreamingExecutionRelation
  type StreamingQueryWrapper = old.StreamingQueryWrapper
  type StreamingRelation = old.StreamingRelation
  val StreamingRelation: old.StreamingRelation.type = old.StreamingRelation
  type WatermarkTracker = old.WatermarkTracker
}

package operators {
  package object stateful {
    type EventTimeStats = old.EventTimeStats
    val EventTimeStats: old.EventTimeStats.type = old.EventTimeStats
    type EventTimeStatsAccum = old.EventTimeStatsAccum
    type EventTimeWatermarkExec = old.EventTimeWatermarkExec
    val EventTimeWatermarkExec: old.EventTimeWatermarkExec.type = old.EventTimeWatermarkExec
    type StatefulOperatorCustomMetric = old.StatefulOperatorCustomMetric
    type StatefulOperatorPartitioning = old.StatefulOperatorPartitioning.type
    val StatefulOperatorPartitioning: old.StatefulOperatorPartitioning.type = old.StatefulOperatorPartitioning
    type StatefulOpStateStoreCheckpointInfo = old.StatefulOpStateStoreCheckpointInfo
    val StatefulOpStateStoreCheckpointInfo: old.StatefulOpStateStoreCheckpointInfo.type =
      old.StatefulOpStateStoreCheckpointInfo
    type StatefulOperatorStateInfo = old.StatefulOperatorStateInfo
  }

  package stateful {
    package object flatmapgroupswithstate {
      type FlatMapGroupsWithStateExec = old.FlatMapGroupsWithStateExec
      val FlatMapGroupsWithStateExec: old.FlatMapGroupsWithStateExec.type = old.FlatMapGroupsWithStateExec
    }
  }
}
