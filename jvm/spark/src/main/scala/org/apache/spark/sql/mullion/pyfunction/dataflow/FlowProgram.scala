package org.apache.spark.sql.mullion.pyfunction.dataflow

import java.util.Base64

import org.json4s._
import org.json4s.jackson.JsonMethods.parse

import org.apache.spark.sql.mullion.pyfunction.agents.FoldProgram
import org.apache.spark.sql.mullion.pyfunction.expression.{Item, ItemReader, Untranslatable}

/** A window's step of a dataflow as Python says it, in JSON:
  *
  * {{{
  *   {"step": 3, "sources": [0], "ordered": true, "ports": [{"targets": [[4, false]], "python": false}, ...],
  *    "clock":    {"kind": "event", "time": function, "wait": us, "stands": us or null}  {"kind": "system"},
  *    "windower": {"kind": "sliding", "length": us, "offset": us, "align": us}  {"kind": "session", "gap": us},
  *    "contents": {"kind": "fold", "initial": base64, "folder": function, "merger": function}
  *                {"kind": "reduce", "reducer": function}  {"kind": "max", "by": function}  {"kind": "collect"}}
  * }}}
  *
  * Ports are `down`, `late` and `meta`, with the steps that what comes out there goes to, whether those have state, and
  * whether it goes through Python's first. Functions are as [[FunctionReader]] has them.
  */
final case class FlowProgram(json: String) {
  import FlowProgram._

  @transient private lazy val said: JValue = parse(json)

  @transient private[dataflow] lazy val step: Int = FoldProgram.whole(said \ "step").toInt

  @transient private[dataflow] lazy val sources: Set[Long] =
    FoldProgram.list(said \ "sources").map(FoldProgram.whole).toSet

  @transient private[dataflow] lazy val ports: Array[Port] = FoldProgram
    .list(said \ "ports")
    .map { port =>
      val targets = FoldProgram.list(port \ "targets").map {
        case JArray(List(step, JBool(stateful))) => Target(FoldProgram.whole(step).toInt, stateful)
        case other                               => throw new IllegalArgumentException(s"$other is no target")
      }
      Port(targets.toArray, port \ "python" == JBool(true))
    }
    .toArray

  /** What makes the windows of keys in a task. */
  private[dataflow] def windows(): Windows = new Windows(said, ports.map(_.isWanted))
}

private[pyfunction] object FlowProgram {
  private[dataflow] final case class Target(step: Int, isStateful: Boolean)

  private[dataflow] final case class Port(targets: Array[Target], python: Boolean) {
    def isWanted: Boolean = python || targets.nonEmpty
  }

  private[dataflow] final class Windows(said: JValue, wanted: Array[Boolean]) {
    val layouts = new Layouts
    private val (clock, windower) = (said \ "clock", said \ "windower")
    private val isOrdered = said \ "ordered" == JBool(true)
    private val isOfEvents = clock \ "kind" == JString("event")

    /** What gives values their times; none where that is the system's. */
    val timeOf: Option[OfRow] = Option.when(isOfEvents)(new OfRow(new FunctionReader(clock \ "time")))
    private val stands = clock \ "stands" match {
      case JInt(us) => Some(us.toLong)
      case _        => None
    }
    private lazy val initial =
      ItemReader.readOne(Base64.getDecoder.decode(FoldProgram.text(said \ "contents" \ "initial")))
    private val make = MakeContents(said \ "contents", initial, layouts)

    private def us(of: JValue, name: String) = FoldProgram.whole(of \ name)

    private val nothing = Item.tuple(Item.Nothing, Item.Nothing, Item.Many(Array.empty), Item.Many(Array.empty))

    /** The windows of a key that is new at a system time. */
    def fresh(nowUs: Long): KeyWindows = kept(nothing, nowUs)

    /** Those of a key whose state was kept. */
    def kept(state: Item, nowUs: Long): KeyWindows = state match {
      case Item.Tuple(Array(ofClock, ofWindower, Item.Many(windows), Item.Many(waiting))) =>
        val made = new KeyWindows(clockOf(ofClock, nowUs), windowerOf(ofWindower), make, isOrdered, wanted)
        made.restore(windows, waiting, layouts)
        made
      case _ => throw Untranslatable
    }

    private lazy val waitUs = us(clock, "wait")

    private def clockOf(kept: Item, nowUs: Long): FlowClock =
      if (isOfEvents) FlowClock.ofEvents(waitUs, stands, kept, nowUs)
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
