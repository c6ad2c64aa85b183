package dev.mullion

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.mullion.calls.{ResolveCalls, TableFunctions, Unfit}
import org.apache.spark.sql.mullion.checkpoint.ContinueAtStart
import org.apache.spark.sql.mullion.exec.SortByKeyExec
import org.apache.spark.sql.mullion.exec.partial.ReadColumns
import org.apache.spark.sql.mullion.exec.scan.{LightScans, ReadByEachTask}
import org.apache.spark.sql.mullion.functions.SqlFunctions
import org.apache.spark.sql.mullion.plan.{RefuseAtStart, WindowStrategy}
import org.apache.spark.sql.mullion.python.StatefulStrategy
import org.apache.spark.sql.mullion.shim.Classic

/** Adds Mullion to a session: `spark.sql.extensions=dev.mullion.MullionExtensions`.
  *
  * On a Spark that lacks what Mullion calls, it adds refusals instead, and says so in the log: a session that asks
  * nothing of Mullion starts and works.
  */
class MullionExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = Unfit.found match {
    case Some(why) => Unfit.refuse(extensions, why)
    case None      => add(extensions)
  }

  private def add(extensions: SparkSessionExtensions): Unit = {
    extensions.injectPlannerStrategy(_ => WindowStrategy)
    extensions.injectPlannerStrategy(_ => StatefulStrategy)
    extensions.injectColumnar(_ => LightScans)
    // Rules after transitions go from the last to the first.
    extensions.injectColumnar(_ => ReadByEachTask)
    extensions.injectColumnar(_ => ReadColumns)
    extensions.injectColumnar(_ => SortByKeyExec.InPlaceOfSparks)
    // Before anything is resolved: Spark's own check of output modes comes with the resolution of the sink.
    extensions.injectHintResolutionRule(_ => RefuseAtStart)
    // Once it is known where the checkpoint is.
    extensions.injectPostHocResolutionRule(session => new ContinueAtStart(Classic.session(session)))
    SqlFunctions.inject(extensions)
    // What calls ask for stands in their place before Spark drops hints that it does not know, and once a function of
    // SQL has made a call.
    extensions.injectHintResolutionRule(session => ResolveCalls(Classic.session(session)))
    extensions.injectResolutionRule(session => ResolveCalls(Classic.session(session)))
    TableFunctions.inject(extensions)
  }
}
