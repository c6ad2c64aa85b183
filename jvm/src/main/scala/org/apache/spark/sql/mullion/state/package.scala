package org.apache.spark.sql.mullion

/** Where panes are while they are open. docs/state.md says what is written, where, and which version reads what.
  * {{{
  *   records     what a record is: kinds ([[records.FamilySpec]]), their order, their bytes
  *   memory      records in memory, in order, in versions that share what is equal
  *   attempts    which attempt's version of a partition counts
  *   segments    changes of a batch, written as few large values
  *   store       partitions in RocksDB, with records in memory beside it
  *   header      what the state of an operator means, written beside it and compared at each start
  * }}}
  * [[PartitionOpener]] opens a partition in a task; everything above asks it and no store by its class. A change of
  * what is written raises a format in `header`.
  */
package object state
