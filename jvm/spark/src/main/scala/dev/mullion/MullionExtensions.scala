package dev.mullion

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.mullion.checkpoint.evolve.ContinueAtStart
import org.apache.spark.sql.mullion.operator.SortByKeyExec
import org.apache.spark.sql.mullion.operator.partial.ReadColumns
import org.apache.spark.sql.mullion.operator.scan.{LightScans, ReadByEachTask}
import org.apache.spark.sql.mullion.plan.{PruneJson, RefuseAtStart, WindowStrategy}
import org.apache.spark.sql.mullion.pyfunction.keyed.KeyedFunctionStrategy
import org.apache.spark.sql.mullion.request.reject.Unfit
import org.apache.spark.sql.mullion.request.sql.TableFunctions
import org.apache.spark.sql.mullion.request.ResolveCalls
import org.apache.spark.sql.mullion.shim.Classic
import org.apache.spark.sql.mullion.sqlfunctions.SqlFunctions

/** Adds Mullion to a session: `spark.sql.extensions=dev.mullion.MullionExtensions`.
  *
  * On a Spark without an API that Mullion calls, it logs a warning and adds rules that reject Mullion's calls instead.
  * Sessions that do not use Mullion then still work.
  */
class MullionExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = Unfit.reason match {
    case Some(why) => Unfit.refuse(extensions, why)
    case None      => add(extensions)
  }

  private def add(extensions: SparkSessionExtensions): Unit = {
    extensions.injectPlannerStrategy(_ => WindowStrategy)
    extensions.injectPlannerStrategy(_ => KeyedFunctionStrategy)
    // Runs after Spark's own rules have pruned columns.
    extensions.injectPreCBORule(_ => PruneJson)
    extensions.injectColumnar(_ => LightScans)
    // Spark applies post-transition rules in reverse order.
    extensions.injectColumnar(_ => ReadByEachTask)
    extensions.injectColumnar(_ => ReadColumns)
    extensions.injectColumnar(_ => SortByKeyExec.InPlaceOfSparks)
    // Must run before resolution: Spark checks output modes when it resolves the sink.
    extensions.injectHintResolutionRule(_ => RefuseAtStart)
    // Runs once the checkpoint's location is known.
    extensions.injectPostHocResolutionRule(session => new ContinueAtStart(Classic.session(session)))
    SqlFunctions.inject(extensions)
    // Must replace calls before Spark drops unknown hints, and after SQL functions have made them.
    extensions.injectHintResolutionRule(session => ResolveCalls(Classic.session(session)))
    extensions.injectResolutionRule(session => ResolveCalls(Classic.session(session)))
    TableFunctions.inject(extensions)
  }
}
