package org.apache.spark.sql.mullion.operator.program

import java.util.{UUID, WeakHashMap}

import scala.collection.mutable

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.classic.DataFrame
import org.apache.spark.sql.execution.SQLExecution
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.mullion.expressions.rows.Projections
import org.apache.spark.sql.mullion.query.RunningQuery

import dev.mullion.MullionException
import dev.mullion.windows.spec.Setting

/** The keys of a table whose windows close without rows, although no row of them may ever come.
  *
  * {{{
  *   batch           7                            8       9
  *   the query       starts, reads the table                      (and again at its next start)
  *   a new key       from its first open window
  *   state           a record of each key
  * }}}
  *
  * The first batch that a query runs after its start adds the keys that state lacks. A key stays known when its row
  * leaves the table, like a key that has had rows.
  *
  * @param rows
  *   one row for each key, as the window's key columns
  */
private[mullion] final class KnownKeys(@transient val rows: DataFrame) extends Serializable {
  import KnownKeys._

  /** The keys of each partition, in the first batch that a query runs; none in later ones.
    *
    * @param version
    *   the version of state that the batch reads
    */
  private[operator] def of(run: UUID, operator: Long, version: Long, partitions: Int): Option[Keys] =
    ofQueries.synchronized {
      RunningQuery.find(rows.sparkSession, run).flatMap { query =>
        val ofOperators = ofQueries.computeIfAbsent(query, _ => mutable.Map.empty[Long, (Long, Option[Keys])])
        val (first, keys) = ofOperators.getOrElseUpdate(operator, version -> Some(read(partitions)))
        // Later batches need no keys, and the driver frees them.
        if (first != version) ofOperators(operator) = first -> None
        keys.filter(_ => first == version)
      }
    }

  private def read(partitions: Int): Keys = {
    val query = rows.limit(Most + 1).queryExecution
    // An execution of its own: otherwise Spark's page of the batch would show the plan of this query.
    val keyRows = SQLExecution.withNewExecutionId(query, Some("keys of windows"))(query.executedPlan.executeCollect())
    if (keyRows.length > Most)
      throw MullionException.invalid(
        s"${Setting.EmptyFor} has more than $Most keys, and each start of the query holds them in the driver's memory. Give it " +
          "fewer keys, or let the others become known with their first row."
      )
    val columns = rows.queryExecution.analyzed.output
    val keyOf = Projections(columns, columns)
    val partitionOf = Projections(Seq(HashPartitioning(columns, partitions).partitionIdExpression), columns)
    val ofPartitions = keyRows.toSeq.groupMap(row => partitionOf(row).getInt(0))(keyOf(_).copy())
    rows.sparkSession.sparkContext.broadcast(Array.tabulate(partitions)(ofPartitions.getOrElse(_, Nil).toArray))
  }
}

private[mullion] object KnownKeys {

  /** The keys of each partition. */
  type Keys = Broadcast[Array[Array[UnsafeRow]]]

  /** The limit of keys, which the driver and each executor hold in memory at the start of a query. */
  val Most: Int = 1000000

  // Entries are removed with their query, so they must not reference it.
  private val ofQueries = new WeakHashMap[StreamExecution, mutable.Map[Long, (Long, Option[Keys])]]()
}
