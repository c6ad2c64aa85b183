package org.apache.spark.sql.mullion.state.versions

import java.util.concurrent.ThreadLocalRandom

import org.apache.spark.sql.execution.streaming.state.StateStore

/** Tells a version of a partition that a task opened, and the one that it leaves, from those of other attempts. */
private[state] sealed trait VersionNames {

  /** That of the version that was opened; none if it has none. */
  def opened: Option[String]

  /** Comes before the store commits. */
  def committing(): Unit

  /** That of the version that the store has committed. */
  def committed(): Option[String]
}

private[state] object VersionNames {

  /** Spark names them: format 2 of checkpoints. */
  final class BySpark(store: StateStore, override val opened: Option[String]) extends VersionNames {
    override def committing(): Unit = ()

    override def committed(): Option[String] = store.getStateStoreCheckpointInfo().stateStoreCkptId
  }

  /** They are named in the state itself.
    *
    * @param from
    *   the id of the version that was opened
    * @param wrote
    *   told of the version that is left
    */
  final class InState(ids: VersionIds, version: Long, from: Long, wrote: Long => Unit) extends VersionNames {
    private val id = ThreadLocalRandom.current.nextLong(1L, Long.MaxValue)

    override def opened: Option[String] = Some(from.toString)

    override def committing(): Unit = ids.note(version + 1, id, from)

    override def committed(): Option[String] = {
      wrote(id)
      Some(id.toString)
    }
  }

  /** They have no names: each record has a key of its own, and any attempt's will do. */
  case object None extends VersionNames {
    override def opened: Option[String] = Option.empty
    override def committing(): Unit = ()
    override def committed(): Option[String] = Option.empty
  }
}
