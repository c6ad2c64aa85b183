package dev

/** What others call by name: [[Facade]], all that Python calls, in plain types; [[MullionExtensions]], for
  * `spark.sql.extensions`; [[MullionException]], every error of ours.
  *
  * The rooms below know nothing of those above them. `LayoutSuite` holds the order and checks every import.
  * {{{
  *   dev.mullion.windows            decisions: which panes there are, when they fire and close; no Spark
  *   dev.mullion.files              a local file system without processes, for tests and laptops
  *
  *   org.apache.spark.sql.mullion   what must see Spark's private parts
  *     shim                         what differs between Spark's lines
  *     expressions  functions       Catalyst expressions; those that SQL can call
  *     topics  tables               JSON text and files of topics; tables that panes are written to
  *     query                        a running query, seen from the driver: its clock, its ticks, files of its checkpoint
  *     state                        records of panes, in RocksDB, in memory or in Spark's HDFS-backed store
  *     exec                         the operator, and the nodes below it
  *     python                       functions of Python between the source and windows
  *     plan                         logical nodes, and how they become plans
  *     builders                     from a call in Python to a logical plan
  *     checkpoint                   a checkpoint read, recovered or shown
  * }}}
  */
package object mullion
