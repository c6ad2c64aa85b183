package org.apache.spark.sql.mullion.operator.scan

import java.io.DataOutput
import java.util.{HashMap, Map => JavaMap}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.io.{Text, WritableUtils}

/** Hadoop's settings, sent to executors without the origin of each setting.
  *
  * {{{
  *   Configuration   size, { name, value, its source file or program, each compressed }      9 ms for 1,100
  *   this            size, { name, value, nothing }                                          below 1 ms
  * }}}
  *
  * The executor reads an ordinary configuration of Hadoop with the same settings. No task uses the origins.
  */
private[scan] final class SettingsAlone(of: Configuration) extends Configuration(of) {

  /** All of them as they are now. */
  def all: JavaMap[AnyRef, AnyRef] = new HashMap(getProps)

  /** In the form that [[Configuration.readFields]] reads. */
  override def write(out: DataOutput): Unit = {
    val settings = getProps
    WritableUtils.writeVInt(out, settings.size)
    settings.asScala.foreach { case (name, value) =>
      Text.writeString(out, name)
      Text.writeString(out, value)
      WritableUtils.writeCompressedStringArray(out, None.orNull)
    }
  }
}
