package org.apache.spark.sql.mullion

/** The state of open panes. docs/reference/state.md documents the files and their compatibility.
  * {{{
  *   record      records: kinds ([[record.FamilySpec]]), order, encoding
  *   btree       records in memory, in order, in versions that share equal parts
  *   attempt     the attempt whose version of a partition counts
  *   packed      the changes of a batch, written as few large values
  *   rocksdb     partitions in RocksDB, with cached records
  *   header      the meaning of an operator's state, written next to it and compared at each start
  * }}}
  * [[PartitionOpener]] opens a partition in a task; other packages use no store by its class. A change of the encoding
  * requires a new format in `header`.
  */
package object state
