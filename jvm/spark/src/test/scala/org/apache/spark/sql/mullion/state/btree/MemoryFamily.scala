package org.apache.spark.sql.mullion.state.btree

import org.apache.spark.sql.mullion.state.record.{Family, FamilySpec, RecordCounts}

/** Records of one kind in memory, for tests of their users. */
object MemoryFamily {
  def apply(spec: FamilySpec): Family =
    new RecordsFamily(spec, new VersionedBTree(keyCodec = ImplicitKeys.of(spec)), new RecordCounts)
}
