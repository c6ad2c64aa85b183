package org.apache.spark.sql.mullion.operator.scan

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream}

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.hadoop.conf.Configuration

import org.apache.spark.util.{SerializableConfiguration, Utils}

import dev.mullion.{MullionSuite, TestSeed}

class LightScansSuite extends MullionSuite {
  private val seed = TestSeed.value

  private def settings(of: Configuration): Map[String, String] = of.asScala.map(e => e.getKey -> e.getValue).toMap

  private def written(of: Configuration): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    of.write(new DataOutputStream(bytes))
    bytes.toByteArray
  }

  private def random(random: Random): Configuration = {
    val settings = new Configuration()
    for (_ <- 0 until random.nextInt(50)) {
      val value = LightScansSuite.characters(random)
      settings.set(s"name.${random.nextInt(60)}", value, "a test")
    }
    if (random.nextBoolean()) settings.unset("io.file.buffer.size")
    settings
  }

  test(s"tasks read the settings that were sent, and read no origins (seed $seed)") {
    for (round <- 0 until 20) {
      val sent = random(new Random(seed + round))
      val light = new SettingsAlone(sent)
      val read = new Configuration(false)
      read.readFields(new DataInputStream(new ByteArrayInputStream(written(light))))
      val ofHadoop = new Configuration(false)
      ofHadoop.readFields(new DataInputStream(new ByteArrayInputStream(written(sent))))
      assertEquals(settings(read), settings(ofHadoop))
      assertEquals(settings(light), settings(sent))
      assert(clue(written(light).length) < clue(written(sent).length))
    }
  }

  test("they go with Spark's own serializer, as a scan sends them") {
    val sent = random(new Random(seed))
    val holder = new SerializableConfiguration(new SettingsAlone(sent))
    val read = Utils.deserialize[SerializableConfiguration](Utils.serialize(holder))
    assertEquals(settings(read.value), settings(sent))
    assertEquals(read.value.getClass.getName, classOf[Configuration].getName)
  }
}

private object LightScansSuite {
  // Including names that Hadoop would substitute in a value.
  private val parts = Seq("$", "{fs.defaultFS}", "a value", ",", " ", "é", "窓", "\\", "\n")

  def characters(random: Random): String = Seq.fill(random.nextInt(6))(parts(random.nextInt(parts.length))).mkString
}
