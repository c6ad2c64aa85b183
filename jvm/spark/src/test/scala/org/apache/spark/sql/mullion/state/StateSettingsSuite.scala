package org.apache.spark.sql.mullion.state

import java.util.UUID

import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.shim.SparkVersionShim
import org.apache.spark.sql.mullion.state.rocksdb.CacheMemory

import dev.mullion.{MullionException, MullionSuite}

/** Settings that are rejected before a task begins. */
class StateSettingsSuite extends MullionSuite {
  private val format = SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key

  private def refused(
      settings: (String, String)*
  )(version: Long = 0, hasIds: Boolean = false): Option[MullionException] = {
    val conf = new SQLConf
    settings.foreach { case (name, value) => conf.setConfString(name, value) }
    val info = new SparkVersionShim.StateInfo("/queries/one/state", UUID.randomUUID(), 0, version, 2, None, None)
    try {
      StateSettings.check(info, conf, isKnown = true, hasIds)
      None
    } catch { case e: MullionException => Some(e) }
  }

  test("RocksDB's write buffers are small for a window's state, unless the session sets their size") {
    val writeBuffer = "spark.sql.streaming.stateStore.rocksdb.writeBufferSizeMB"
    val (silent, asked) = (new SQLConf, new SQLConf)
    asked.setConfString(writeBuffer, "100")
    def of(session: SQLConf) = PartitionOpener.confOf(session).getConfString(writeBuffer)
    assertEquals((of(silent), of(asked)), ("16", "100"))
    assert(!silent.contains(writeBuffer))
  }

  test("files of state have a checksum file if Spark's have one, if the session asks, or if their codec has none") {
    val checksums = "spark.sql.streaming.checkpoint.fileChecksum.enabled"
    def of(settings: (String, String)*) = {
      val session = new SQLConf
      settings.foreach { case (name, value) => session.setConfString(name, value) }
      PartitionOpener.confOf(session).getAllConfs.get(checksums)
    }
    assertEquals(of(), Some("false"))
    assertEquals(of(format -> "2"), None)
    assertEquals(of(checksums -> "true"), Some("true"))
    for (codec <- Seq("zstd", "snappy", "lzf"))
      assertEquals(of(SQLConf.STATE_STORE_COMPRESSION_CODEC.key -> codec), None, codec)
  }

  test("format 2 of checkpoints is rejected on a checkpoint of format 1") {
    val error = refused(format -> "2")(version = 7).get
    assertEquals(error.condition, "INCOMPATIBLE_STATE")
    assert(error.getMessage.contains("the checkpoint /queries/one was written with format 1"), error.getMessage)
    assertEquals(refused(format -> "2")(), None)
    assertEquals(refused()(version = 7), None)
  }

  test("format 1 of checkpoints is rejected on a checkpoint of format 2") {
    val error = refused()(version = 7, hasIds = true).get
    assertEquals(error.condition, "INCOMPATIBLE_STATE")
    assert(error.getMessage.contains("the checkpoint /queries/one was written with format 2"), error.getMessage)
    assertEquals(refused()(version = 0, hasIds = true), None)
  }

  test("a limit of memory that is not a number of bytes is rejected") {
    for (said <- Seq("much", "-1", "1.5g", ""))
      assert(
        refused(CacheMemory.Setting -> said)().exists(_.getMessage.contains(s"=$said is not")),
        said
      )
    for (said <- Seq("0", "512m", " 1g ")) assertEquals(refused(CacheMemory.Setting -> said)(), None)
  }
}
