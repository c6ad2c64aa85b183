package org.apache.spark.sql.mullion.state.memory

import org.apache.spark.sql.mullion.state.records.{Family, FamilySpec, RecordCounts}

/** Records of one kind in memory, for tests of their users. */
object MemoryFamily {
  def apply(spec: FamilySpec): Family =
    new RecordsFamily(spec, new SortedRecords(keyCodec = ToldKeys.of(spec)), new RecordCounts)
}
