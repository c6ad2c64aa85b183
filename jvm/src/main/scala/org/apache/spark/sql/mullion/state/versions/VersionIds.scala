package org.apache.spark.sql.mullion.state.versions

import scala.util.Using

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{NoPrefixKeyStateEncoderSpec, StateStore}
import org.apache.spark.sql.types.{LongType, StructType}

/** Which attempt of a task wrote each version of a partition, noted in the state itself.
  *
  * {{{
  *   version    6         7              8
  *              a    <-   b         <-   d      each version has an id, and says which one it was made from
  *              a    <-   c                     another attempt of the task that wrote 7
  * }}}
  *
  * Spark asks that all attempts of a task leave the same state, and may then make a version of one attempt's file and
  * the changes that go on from another's. The records are the same, but not where [[Segments]] have them: so a version
  * is only used with the one that it was made from.
  */
private[state] final class VersionIds(store: StateStore) {
  import VersionIds._

  private val keyRow = row(1)
  private val valueRow = row(2)

  store.createColFamilyIfAbsent(Family, KeySchema, ValueSchema, NoPrefixKeyStateEncoderSpec(KeySchema))

  /** The id of a version; 0 where none is noted. */
  def of(version: Long): Long = {
    val noted = store.get(keyOf(version), Family)
    if (noted eq null) 0L else noted.getLong(0)
  }

  /** Notes the version that is being written, and forgets one that is old. */
  def note(version: Long, id: Long, from: Long): Unit = {
    valueRow.setLong(0, id)
    valueRow.setLong(1, from)
    store.put(keyOf(version), valueRow, Family)
    store.remove(keyOf(version - Kept), Family)
  }

  /** The last version that is not the one which the next was made from. */
  def brokenAt: Option[Long] = {
    val noted = Using.resource(store.iterator(Family)) { rows =>
      rows.map(row => row.key.getLong(0) -> (row.value.getLong(0) -> row.value.getLong(1))).toMap
    }
    noted.iterator.collect {
      case (version, (id, _)) if noted.get(version + 1).exists { case (_, from) => from != id } => version
    }.maxOption
  }

  private def keyOf(version: Long): UnsafeRow = {
    keyRow.setLong(0, version)
    keyRow
  }
}

private[state] object VersionIds {
  private val Family = "version-ids"

  private val KeySchema = new StructType().add("version", LongType, nullable = false)
  private val ValueSchema =
    new StructType().add("id", LongType, nullable = false).add("from", LongType, nullable = false)

  // Of more versions than lie between two snapshots, which are uploaded once a minute.
  private final val Kept = 1024L

  private def row(columns: Int): UnsafeRow = UnsafeRow.createFromByteArray(8 + 8 * columns, columns)
}
