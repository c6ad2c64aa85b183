package org.apache.spark.sql.mullion.state

/** The records of state: their kinds ([[Family]], [[FamilySpec]]), their order ([[KeyOrder]], [[RecordOrder]]), and the
  * interface of a partition ([[StatePartition]]).
  */
package object record
