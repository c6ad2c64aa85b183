package org.apache.spark.sql.mullion.state

/** What a record of state is: its kind ([[Family]], [[FamilySpec]]), the order in which records of a kind are kept
  * ([[KeyOrder]], [[RecordOrder]]), and the interface of a partition ([[StatePartition]]).
  */
package object records
