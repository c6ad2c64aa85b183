package org.apache.spark.sql.mullion.pyfunction.dataflow

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  Attribute,
  AttributeSeq,
  BindReferences,
  Expression,
  InterpretedUnsafeProjection,
  UnsafeRow
}
import org.apache.spark.sql.mullion.pyfunction.expression.{Item, ItemReader, ItemWriter, Untranslatable}
import org.apache.spark.sql.mullion.pyfunction.state.{CallCounts, KeyedState, TimerClock}
import org.apache.spark.unsafe.types.UTF8String

/** Runs a window step of a dataflow in a task, before the function that runs it in Python. Both have the same records,
  * so each can continue the work of the other.
  *
  * {{{
  *   rows of the step - keys - values, timers, the end     processed here; the output goes to other steps
  *                           - Untranslatable              Python processes the rest of this key in this batch
  *   other rows       - passed on
  * }}}
  *
  * Python is called if it has to process a key, or if its steps follow the windows.
  *
  * @param layout
  *   the columns of the rows
  * @param input
  *   the columns of the rows for Python
  */
private[pyfunction] final class FlowStage(
    program: FlowProgram,
    layout: Seq[Attribute],
    input: Seq[Attribute],
    output: Seq[Attribute],
    state: KeyedState,
    partition: Int,
    wallUs: Long
) {
  import FlowStage._

  private val windows = program.windows()
  private val results = new FlowOutput(program.ports, partition)
  // The keys that Python has to process, each with its first phase.
  private val handed = mutable.LinkedHashMap.empty[UTF8String, Long]

  private def ordinal(name: String) = layout.indexWhere(_.name == name)

  private val (targetAt, shardAt) = (ordinal("target"), ordinal("shard"))
  private val (firstAt, partAt, dataAt) = (ordinal("first"), ordinal("part"), ordinal("data"))

  /** The output of a batch, and the rows that Python has to process. */
  def over(rows: Iterator[InternalRow], calls: CallCounts): Left = {
    val own = mutable.ArrayBuffer.empty[Own]
    val others = mutable.ArrayBuffer.empty[UnsafeRow]
    // Code generation for each task would take longer than these few rows.
    val toPython = InterpretedUnsafeProjection.createProjection(bound(input, layout))
    val copying = InterpretedUnsafeProjection.createProjection(bound(input, input))
    val ends = mutable.ArrayBuffer.empty[Array[Byte]]
    rows.foreach { row =>
      val target = row.getInt(targetAt)
      if (target == program.step)
        own += Own(row.getInt(shardAt), row.getLong(firstAt), row.getInt(partAt), row.getBinary(dataAt).clone)
      else {
        if (target == End) ends += row.getBinary(dataAt).clone
        others += toPython(row).copy()
      }
    }
    val asPython = (one: Own) => copying(InternalRow(program.step, one.shard, one.first, one.part, one.data)).copy()
    decoded(own) match {
      case None =>
        // If rows cannot be read here, Python processes the batch.
        Left(Iterator.empty, own.iterator.map(asPython) ++ others, called = true)
      case Some(shards) =>
        shards.foreach(values(_, calls))
        time()
        if (ends.exists(isEnd)) end()
        val remaining = mutable.ArrayBuffer.empty[UnsafeRow]
        if (handed.nonEmpty) remaining ++= own.map(asPython)
        val events = results.rowForPython().map(copying(_).copy())
        if (handed.nonEmpty || events.isDefined) {
          val keys = handed.iterator.map { case (key, what) => Item.tuple(Item.Text(key), Item.Int(what)) }.toArray
          remaining += copying(InternalRow(FlowOutput.Handed, partition, 0L, 0, ItemWriter.write(keys))).copy()
          remaining ++= events
          // Python reads ends from these rows, and passes them on.
          remaining ++= others
        }
        val project = InterpretedUnsafeProjection.createProjection(bound(output, output))
        val passed = if (remaining.isEmpty) others.iterator.map(project) else Iterator.empty
        Left(passed ++ results.rows().iterator.map(project), remaining.iterator, called = remaining.nonEmpty)
    }
  }

  private def isEnd(data: Array[Byte]): Boolean = ItemReader.readOne(data) match {
    case Item.Tuple(Array(Item.Many(before), Item.Many(now))) =>
      def numbers(of: Array[Item]) = of.collect { case Item.Int(held) => held }.toSet
      program.sources.subsetOf(numbers(now)) && !program.sources.subsetOf(numbers(before))
    case _ => false
  }

  /** The batches of each shard; `None` if a row cannot be read. */
  private def decoded(own: mutable.ArrayBuffer[Own]): Option[Seq[FlowBatch]] =
    try
      Some(own.groupBy(_.shard).toSeq.sortBy(_._1).map { case (_, rows) =>
        FlowBatch(
          rows.sortBy(one => (one.first, one.part)).map(one => ItemReader.read(one.data)).toSeq,
          windows.layouts,
          windows.timeOf
        )
      })
    catch { case Untranslatable => None }

  private def values(batch: FlowBatch, calls: CallCounts): Unit = batch.ofKeys().foreach { case (key, entries) =>
    if (attempt(key, OfValues)(ofKey(key, batch.of(entries)))) calls.folded += entries.length
    results.cut()
  }

  /** Runs a phase of a key. If it is untranslatable, Python processes this and later phases, and the result is false.
    */
  private def attempt(key: UTF8String, what: Long)(body: => Unit): Boolean =
    try {
      body
      true
    } catch {
      case Untranslatable =>
        handed(key) = what
        false
    }

  private def ofKey(key: UTF8String, batch: FlowBatch): Unit = {
    val name = key.getBytes
    val record = recordOf(name)
    val first = batch.nowOf(0)
    var logic = record.fold(windows.fresh(first))(stored => windows.restore(stored.state, first))
    val came = mutable.ArrayBuffer.empty[(Long, Long, Seq[FlowEvent])]
    def note(place: Long, now: Long, events: Seq[FlowEvent]): Unit =
      if (events.nonEmpty) came += ((place, now, events))
    var lastNow = 0L
    var from = 0
    while (from < batch.length) {
      val place = batch.placeOf(from)
      val now = batch.nowOf(from)
      var until = from + 1
      while (until < batch.length && batch.placeOf(until) == place) until += 1
      if (from == 0 || lastNow != now) {
        lastNow = now
        if (logic.due(now).exists(_ < now)) {
          note(place, now, logic.onNotify(now))
          if (logic.isEmpty) logic = windows.fresh(now)
        }
      }
      val next = logic.onRun(batch, from, now)
      if (next > from) until = next
      else note(place, now, logic.onBatch(batch, from, until, now))
      if (logic.isEmpty) logic = windows.fresh(now)
      from = until
    }
    write(name, record, logic, wallUs)
    came.foreach { case (place, now, events) => results.give(key, place, now, events) }
  }

  /** Notifies the keys whose timers are due. */
  private def time(): Unit = {
    val timers = state.due(TimerClock.Wall, wallUs)
    val due = timers.map(timer => (state.dueOf(timer.key), state.keyOf(timer.key)))
    timers.close()
    due.groupBy(one => UTF8String.fromBytes(one._2)).foreach { case (key, own) =>
      if (!handed.contains(key)) attempt(key, OfTime) {
        val name = own.head._2
        recordOf(name) match {
          case Some(record) if record.due.exists(_ <= wallUs) =>
            val logic = windows.restore(record.state, wallUs)
            val events = logic.onNotify(wallUs)
            // A timer that is due again at once fires in a later batch.
            write(name, Some(record), logic, wallUs + Millisecond)
            own.foreach { case (at, _) => if (!logic.due(wallUs + Millisecond).contains(at)) forget(at, name) }
            if (events.nonEmpty) results.give(key, Notified, wallUs, events)
          case Some(record) => own.foreach { case (at, _) => if (!record.due.contains(at)) forget(at, name) }
          case None         => own.foreach { case (at, _) => forget(at, name) }
        }
      }
    }
    results.cut()
  }

  /** Ends all keys. */
  private def end(): Unit = {
    val all = state.scan(Array.emptyByteArray)
    val names = all.map(_.key.getBinary(0))
    all.close()
    names.foreach { name =>
      val key = UTF8String.fromBytes(name)
      if (!handed.contains(key)) attempt(key, OfEnd) {
        recordOf(name).foreach { record =>
          val logic = windows.restore(record.state, wallUs)
          val events = logic.onEnd()
          write(name, Some(record), logic, wallUs)
          if (events.nonEmpty) results.give(key, Ended, wallUs, events)
        }
      }
      results.cut()
    }
  }

  private def recordOf(name: Array[Byte]): Option[Record] = Option(state.get(name)).map { record =>
    ItemReader.readOne(record) match {
      case Item.Tuple(Array(Item.Int(due), snapshot)) => Record(Some(due), snapshot)
      case Item.Tuple(Array(Item.Nothing, snapshot))  => Record(None, snapshot)
      case _                                          => throw Untranslatable
    }
  }

  private def write(name: Array[Byte], before: Option[Record], logic: KeyWindows, nowUs: Long): Unit = {
    val isThere = Some(before.isDefined)
    val due = if (logic.isEmpty) None else logic.due(nowUs)
    val oldDue = before.flatMap(_.due)
    if (logic.isEmpty) state.remove(name, isThere)
    else {
      val content = Item.tuple(due.fold[Item](Item.Nothing)(Item.Int(_)), logic.snapshot)
      state.put(name, ItemWriter.writeOne(content), isThere)
    }
    if (due != oldDue) {
      oldDue.foreach(forget(_, name))
      due.foreach(state.putTimer(TimerClock.Wall, _, name))
    }
  }

  private def forget(due: Long, name: Array[Byte]): Unit = state.removeTimer(TimerClock.Wall, due, name)
}

private[pyfunction] object FlowStage {

  /** @param made
    *   rows for other steps
    * @param left
    *   rows for Python
    */
  final case class Left(rows: Iterator[InternalRow], remaining: Iterator[UnsafeRow], called: Boolean)

  private def bound(columns: Seq[Attribute], in: Seq[Attribute]): Seq[Expression] =
    BindReferences.bindReferences(columns, AttributeSeq(in))

  private final case class Own(shard: Int, first: Long, part: Int, data: Array[Byte])

  private final case class Record(due: Option[Long], state: Item)

  // The first phase of a key that Python processes; its state includes the earlier phases.
  private val OfValues = 0L
  private val OfTime = 1L
  private val OfEnd = 2L

  private val End = -1
  private val Notified = (1L << 62) + 1
  private val Ended = (1L << 62) + 2
  private val Millisecond = 1000L
}
