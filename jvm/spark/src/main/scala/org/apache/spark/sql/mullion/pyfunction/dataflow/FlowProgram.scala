package org.apache.spark.sql.mullion.pyfunction.dataflow

import java.util.Base64

import org.json4s._
import org.json4s.jackson.JsonMethods.parse

import org.apache.spark.sql.mullion.pyfunction.agents.FoldProgram
import org.apache.spark.sql.mullion.pyfunction.expression.{Item, ItemReader, Untranslatable}

/** A window step of a dataflow, in the JSON of `bytewax/_translation/window_steps.py`:
  *
  * {{{
  *   {"step": 3, "sources": [0], "ordered": true, "ports": [{"targets": [[4, false]], "python": false}, ...],
  *    "clock":    {"kind": "event", "time": function, "wait": us, "stands": us or null}  {"kind": "system"},
  *    "windower": {"kind": "sliding", "length": us, "offset": us, "align": us}  {"kind": "session", "gap": us},
  *    "contents": {"kind": "fold", "initial": base64, "folder": function, "merger": function}
  *                {"kind": "reduce", "reducer": function}  {"kind": "max", "by": function}  {"kind": "collect"}}
  * }}}
  *
  * The ports are the streams `down`, `late` and `meta`: their target steps with a flag for state, or `python` if
  * Python's steps follow. [[FunctionReader]] reads the functions.
  */
final case class FlowProgram(json: String) {
  import FlowProgram._

  @transient private lazy val node: JValue = parse(json)

  @transient private[dataflow] lazy val step: Int = FoldProgram.integer(node \ "step").toInt

  @transient private[dataflow] lazy val sources: Set[Long] =
    FoldProgram.list(node \ "sources").map(FoldProgram.integer).toSet

  @transient private[dataflow] lazy val ports: Array[Port] = FoldProgram
    .list(node \ "ports")
    .map { port =>
      val targets = FoldProgram.list(port \ "targets").map {
        case JArray(List(step, JBool(stateful))) => Target(FoldProgram.integer(step).toInt, stateful)
        case other                               => throw new IllegalArgumentException(s"$other is no target")
      }
      Port(targets.toArray, port \ "python" == JBool(true))
    }
    .toArray

  /** Builds the windows of keys in a task. */
  private[dataflow] def windows(): Windows = new Windows(node, ports.map(_.isWanted))
}

private[pyfunction] object FlowProgram {
  private[dataflow] final case class Target(step: Int, isStateful: Boolean)

  private[dataflow] final case class Port(targets: Array[Target], python: Boolean) {
    def isWanted: Boolean = python || targets.nonEmpty
  }

  private[dataflow] final class Windows(node: JValue, wanted: Array[Boolean]) {
    val layouts = new Layouts
    private val (clock, windower) = (node \ "clock", node \ "windower")
    private val isOrdered = node \ "ordered" == JBool(true)
    private val isOfEvents = clock \ "kind" == JString("event")

    /** The function that computes the times of values; `None` for the system time. */
    val timeOf: Option[OfRow] = Option.when(isOfEvents)(new OfRow(new FunctionReader(clock \ "time")))
    private val stands = clock \ "stands" match {
      case JInt(us) => Some(us.toLong)
      case _        => None
    }
    private lazy val initial =
      ItemReader.readOne(Base64.getDecoder.decode(FoldProgram.text(node \ "contents" \ "initial")))
    private val make = MakeContents(node \ "contents", initial, layouts)

    private def us(of: JValue, name: String) = FoldProgram.integer(of \ name)

    private val nothing = Item.tuple(Item.Nothing, Item.Nothing, Item.Many(Array.empty), Item.Many(Array.empty))

    /** The windows of a key that is new at a system time. */
    def fresh(nowUs: Long): KeyWindows = restore(nothing, nowUs)

    /** The windows of a key with stored state. */
    def restore(state: Item, nowUs: Long): KeyWindows = state match {
      case Item.Tuple(Array(ofClock, ofWindower, Item.Many(windows), Item.Many(waiting))) =>
        val logic = new KeyWindows(clockOf(ofClock, nowUs), windowerOf(ofWindower), make, isOrdered, wanted)
        logic.restore(windows, waiting, layouts)
        logic
      case _ => throw Untranslatable
    }

    private lazy val waitUs = us(clock, "wait")

    private def clockOf(state: Item, nowUs: Long): FlowClock =
      if (isOfEvents) FlowClock.ofEvents(waitUs, stands, state, nowUs)
      else FlowClock.ofSystem(nowUs)

    private val windowerOf: Item => KeyWindower = windower \ "kind" match {
      case JString("session") =>
        val gap = us(windower, "gap")
        new KeyWindower.Sessions(gap, _)
      case _ =>
        val grid = new KeyWindower.Grid(us(windower, "length"), us(windower, "offset"), us(windower, "align"))
        new KeyWindower.Aligned(grid, _)
    }
  }
}
