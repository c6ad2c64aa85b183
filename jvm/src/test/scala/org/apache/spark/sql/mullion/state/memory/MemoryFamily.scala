package org.apache.spark.sql.mullion.state.memory

import org.apache.spark.sql.mullion.state.records.{Family, FamilySpec, RecordCounts}

/** Records of one kind in memory, for tests of what keeps them. */
object MemoryFamily {
  def apply(spec: FamilySpec): Family =
    new RecordsFamily(spec, new SortedRecords(told = ToldKeys.of(spec)), new RecordCounts)
}
