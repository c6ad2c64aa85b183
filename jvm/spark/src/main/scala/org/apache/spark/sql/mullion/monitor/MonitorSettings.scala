package org.apache.spark.sql.mullion.monitor

import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.internal.SQLConf

import dev.mullion.MullionException

/** The settings of reports.
  *
  * @param showsTab
  *   whether the web UI has the tab
  * @param clockAfterMs
  *   the time after which a clock that has not moved is logged; 0 for never
  */
private[mullion] final case class MonitorSettings(showsTab: Boolean, clockAfterMs: Long)

private[mullion] object MonitorSettings {
  val Tab = "spark.sql.mullion.ui.enabled"
  val ClockAfter = "spark.sql.mullion.log.clockAfter"

  private val DefaultClockAfter = "10min"

  def of(conf: SQLConf): MonitorSettings = MonitorSettings(showsTab(conf), clockAfterMs(conf))

  private def showsTab(conf: SQLConf): Boolean = conf.getConfString(Tab, "true").trim match {
    case "true"  => true
    case "false" => false
    case other   =>
      throw MullionException.invalid(
        s"$Tab=$other is neither true nor false. Set it to false to hide the tab Windows of the web UI."
      )
  }

  private def clockAfterMs(conf: SQLConf): Long = {
    val text = conf.getConfString(ClockAfter, DefaultClockAfter)
    val ms =
      try Some(JavaUtils.timeStringAsSec(text.trim) * 1000L).filter(_ >= 0)
      catch { case _: NumberFormatException => None }
    ms.getOrElse(
      throw MullionException.invalid(
        s"$ClockAfter=$text is not a time: give the time after which a clock that has not moved is logged, such as '10min', or '0' " +
          s"for never (it is $DefaultClockAfter by default)."
      )
    )
  }
}
