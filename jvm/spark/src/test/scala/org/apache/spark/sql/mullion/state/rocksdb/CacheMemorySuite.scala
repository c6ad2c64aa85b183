package org.apache.spark.sql.mullion.state.rocksdb

import org.apache.spark.SparkEnv
import org.apache.spark.sql.execution.streaming.state.StateStoreConf
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.SparkSuite

import dev.mullion.MullionException

/** The maximum memory of records in addition to RocksDB. */
class CacheMemorySuite extends SparkSuite {
  test("the limit is at most Spark's protected storage memory, which is not taken from tasks") {
    val manager = SparkEnv.get.memoryManager
    val shared = manager.maxOnHeapStorageMemory
    def limit(said: String) = {
      val conf = new SQLConf
      conf.setConfString(CacheMemory.Setting, said)
      CacheMemory.limit(new StateStoreConf(conf))
    }
    assertEquals(limit("1m"), 1L << 20)
    assertEquals(limit("900g"), shared / 2)
    val unsaid = CacheMemory.limit(new StateStoreConf(new SQLConf))
    assertEquals(unsaid, Math.min(Runtime.getRuntime.maxMemory / 5, shared / 2 / 4 * 3))
  }

  test("a setting that is not a number of bytes is rejected with the fix") {
    val conf = new SQLConf
    conf.setConfString(CacheMemory.Setting, "much")
    val error = intercept[MullionException](CacheMemory.limit(new StateStoreConf(conf)))
    assert(error.getMessage.contains(s"${CacheMemory.Setting}=much is not a number of bytes"), error.getMessage)
  }
}
