package org.apache.spark.sql.mullion.state.store

import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.mullion.state.memory.{RecordsFamily, ToldKeys}
import org.apache.spark.sql.mullion.state.records.{Family, FamilySpec, RecordCounts, StatePartition}

/** State in memory, see [[RecordsFamily]]. */
final class MemoryPartition(store: MemoryStateStore, families: Seq[FamilySpec]) extends StatePartition {
  private val counts = new RecordCounts

  private val opened =
    families
      .map(spec => spec.name -> new RecordsFamily(spec, store.records(spec.name, ToldKeys.of(spec)), counts))
      .toMap

  override def family(spec: FamilySpec): Family = opened(spec.name)

  // What it writes is whole.
  override def tellsAttemptsApart: Boolean = true

  override def rowsRead: Long = counts.read

  override def rowsAdded: Long = counts.added

  override def checkInvariants(): Unit =
    families.foreach(spec => store.records(spec.name, ToldKeys.of(spec)).checkInvariants())

  override def commit(): Unit = { store.commit(); () }

  override def stores: Seq[StateStore] = Seq(store)
}
