package org.apache.spark.sql.mullion.shim

import java.util.Properties

/** The build of this JAR. */
object BuildInfo {
  private lazy val build: Properties = {
    val properties = new Properties()
    val in = getClass.getResourceAsStream("/dev/mullion/build.properties")
    try properties.load(in)
    finally in.close()
    properties
  }

  /** The version, which must equal the wheel's. */
  def version: String = build.getProperty("version")

  /** The Spark version that it is built for, such as `4.2`. */
  def sparkLine: String = build.getProperty("spark")
}
