package org.apache.spark.sql.mullion.exec.scan

import java.io.DataOutput
import java.util.{HashMap, Map => JavaMap}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.io.{Text, WritableUtils}

/** Hadoop's settings, which go to executors without the notes of where each came from.
  *
  * {{{
  *   Configuration   size, { name, value, which file or program set it, compressed on its own }      9 ms for 1,100
  *   this            size, { name, value, nothing }                                                  below 1 ms
  * }}}
  *
  * What is read there is one of Hadoop's own, with the same settings. The notes serve those who look for a setting's
  * origin, and no task does.
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
