package org.apache.spark.sql.mullion.sqlfunctions

import scala.reflect.ClassTag

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry.FunctionBuilder
import org.apache.spark.sql.catalyst.analysis.FunctionRegistryBase
import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionInfo}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.mullion.expressions.functions.TopN
import org.apache.spark.sql.mullion.shim.SparkVersionShim

import dev.mullion.MullionException
import dev.mullion.windows.spec.{AlignedWindow, Duration}

/** The arithmetic of windows and additional aggregates as SQL functions, documented by `DESCRIBE FUNCTION EXTENDED
  * mullion_windows`. They work in any query, streaming or not.
  */
object SqlFunctions {

  /** A row in more windows than these is a mistake, or needs `windowed`, which does not copy it. */
  private val mostWindows = 1000000L

  private type Described = (FunctionIdentifier, ExpressionInfo, FunctionBuilder)

  val all: Seq[Described] = Seq(
    function[MullionWindows]("mullion_windows", "ts, size[, slide[, offset]]", 2, 4) { arguments =>
      val window = arguments.window(hasSlide = true)
      checkNumber(window)
      MullionWindows(arguments.time, window)
    },
    function[MullionSlice]("mullion_slice", "ts, size, slide[, offset]", 3, 4) { arguments =>
      MullionSlice(arguments.time, arguments.window(hasSlide = true))
    },
    function[MullionWindowStart]("mullion_window_start", "ts, size[, offset]", 2, 3) { arguments =>
      MullionWindowStart(arguments.time, arguments.window(hasSlide = false))
    },
    function[MullionWindowEnd]("mullion_window_end", "ts, size[, offset]", 2, 3) { arguments =>
      MullionWindowEnd(arguments.time, arguments.window(hasSlide = false))
    },
    function[MullionSession]("mullion_session", "ts, gap", 2, 2) { arguments =>
      MullionSession(arguments.time, arguments.gap)
    },
    function[MullionSessionEnd]("mullion_session_end", "last, gap", 2, 2) { arguments =>
      MullionSessionEnd(arguments.time, arguments.gap)
    },
    function[MullionPrevious]("mullion_previous", "aggregate", 1, 1)(arguments => MullionPrevious(arguments.only)),
    function[TopN](TopN.name, "n, order_by, column[, ...]", 3, Int.MaxValue) { arguments =>
      TopN(arguments.count("n"), arguments.ordered(1, "order_by"), arguments.record(2))
    }
  )

  def inject(extensions: SparkSessionExtensions): Unit = all.foreach(extensions.injectFunction)

  /** Functions of the same names that fail, for a Spark on which Mullion cannot run. */
  def injectRefusals(extensions: SparkSessionExtensions, why: MullionException): Unit = all.foreach {
    case (name, info, _) => extensions.injectFunction((name, info, (_: Seq[Expression]) => throw why))
  }

  /** Adds them to a session that was built without the extension. A second call does nothing. */
  def register(spark: SparkSession): Unit = {
    val registry = spark.sessionState.functionRegistry
    all.foreach { case (name, info, builder) =>
      val identifier = SparkVersionShim.builtinFunction(name.funcName)
      if (!registry.functionExists(identifier)) registry.registerFunction(identifier, info, builder)
    }
  }

  private def function[E <: Expression: ClassTag](name: String, usage: String, required: Int, allowed: Int)(
      make: Arguments => Expression
  ): Described = (
    FunctionIdentifier(name),
    FunctionRegistryBase.expressionInfo[E](name, None),
    (values: Seq[Expression]) => make(new Arguments(name, usage, required, allowed, values))
  )

  private def checkNumber(window: AlignedWindow): Unit = {
    val most = (window.size - 1) / window.slide + 1
    if (most > mostWindows)
      throw MullionException.invalid(
        s"mullion_windows would give up to $most windows for a time, of ${Duration.describe(window.size)} every " +
          s"${Duration.describe(window.slide)}, and gives at most $mostWindows. Give a longer slide."
      )
  }
}
