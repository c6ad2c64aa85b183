package org.apache.spark.sql.mullion.checkpoint.compare

import java.nio.file.{Files, Path}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Path => HadoopPath}

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.mullion.pyfunction.keyed.KeyedFunctionHeader
import org.apache.spark.sql.mullion.query.note.{ClockNote, FirstReading, WatermarkNote}
import org.apache.spark.sql.mullion.state.SavepointNote
import org.apache.spark.sql.mullion.state.header.OperatorHeader
import org.apache.spark.sql.mullion.{Damage, TemporaryFolder}

import dev.mullion.{MullionException, MullionSuite}

/** Damaged small files of Mullion in a checkpoint: they are read, or rejected with the file's name. */
class DamagedFilesSuite extends MullionSuite {
  import DamagedFilesSuite._

  private val conf = new Configuration

  private def tried(name: String, whole: String, every: Int = 1)(read: HadoopPath => Unit): Unit = TemporaryFolder.use {
    home =>
      val file = home.resolve(name)
      Files.createDirectories(file.getParent)
      def outcome(text: String): Option[String] = {
        Files.writeString(file, text)
        try {
          read(new HadoopPath(home.toUri))
          None
        } catch { case e: MullionException => Some(e.getMessage) }
      }
      assertEquals(outcome(whole), None)
      val refused = Damage.of(whole).grouped(every).map(_.last).flatMap(outcome).toVector
      val unnamed =
        refused.filterNot(says => says.contains(file.getFileName.toString) || says.startsWith("The savepoint"))
      assert(clue(unnamed).isEmpty)
      assert(clue(refused.length) > 100 / every, Damage.clue)
  }

  private def files(home: HadoopPath) = CheckpointFileManager.create(home, conf)

  test("headers of windows") {
    val original = TemporaryFolder.use { home =>
      headers.map { text =>
        write(home.resolve("_mullion/header.json"), text)
        OperatorHeader.read(new HadoopPath(home.toUri), conf).get
      }
    }
    headers.foreach { text =>
      tried("_mullion/header.json", text, every = 10) { home =>
        // A successfully read header can be compared and described.
        OperatorHeader.read(home, conf).foreach { header =>
          original.foreach { other =>
            assert(header.differences(other).forall(_.nonEmpty))
            assert(other.differences(header).forall(_.nonEmpty))
            header.changeTo(other)
            other.changeTo(header)
          }
          assert(header.describe.nonEmpty)
        }
      }
    }
  }

  test("headers of functions") {
    tried("_mullion/function.json", """{"format": 2, "shards": ["k STRING", "n INT"], "state": "rocksdb"}""") { home =>
      val header = KeyedFunctionHeader(2, List("k STRING"))
      KeyedFunctionHeader.read(home, conf).foreach(read => header.differences(read) ++ read.differences(header))
    }
  }

  test("notes of clocks and of watermarks") {
    tried("mullion-clock", "mullion clock 1\n17 1700000000000000\n")(home => { ClockNote.read(files(home), home); () })
    tried("mullion-first-reading-3", "mullion first reading 1\n17 1700000000000\n") { home =>
      FirstReading.read(files(home), home, operator = 3L)
      ()
    }
    tried("mullion-watermark", "mullion watermark 1\n17 -5000\n")(home => { WatermarkNote.read(files(home), home); () })
  }

  test("the contents that a savepoint lists") {
    val says =
      """{"format":1,"batch":16,"files":[{"path":"offsets/16","bytes":412,"crc":3735928559},""" +
        """{"path":"state/0/0/17.zip","bytes":91,"crc":1}]}"""
    tried("mullion-savepoint", says)(home => { SavepointNote.read(home, conf); () })
  }
}

object DamagedFilesSuite {
  private def write(file: Path, text: String): Unit = {
    Files.createDirectories(file.getParent)
    Files.writeString(file, text)
    ()
  }

  /** Files next to the state of a tumbling window, and of two windows in one query. */
  private val headers: Seq[String] = Seq(
    """{"format":1,"window":{"size":20000000,"slide":20000000,"offset":0},"allowedLateness":1000000,"earlyEvery":0""" +
      ""","earlyUnchanged":false,"refinements":{"count":100,"onTime":false,"accumulate":true,"empty":false,"ids":fals""" +
      """e,"atEnd":false},"clock":"event time","keys":["k STRING"],"aggregates":["count(v) AS count","sum(v) AS su""" +
      """m","avg(v) AS avg","max(v) AS max","sort_array(collect_list(v), true) AS all"],"buffers":["BIGINT","BIGIN""" +
      """T","DOUBLE","BIGINT","INT","BINARY in chunks"],"input":"{\"type\":\"struct\",\"fields\":[{\"name\":\"k\",\"t""" +
      """ype\":\"string\",\"nullable\":true,\"metadata\":{}},{\"name\":\"v\",\"type\":\"integer\",\"nullable\":true,""" +
      """\"metadata\":{}}]}","by":["k AS k"],"state":"rocksdb","functions":[{"text":"count(v) BIGINT","buffers":["BIG""" +
      """INT"]},{"text":"sum(v) BIGINT","buffers":["BIGINT"]},{"text":"avg(v) DOUBLE","buffers":["DOUBLE","BIGINT"]},""" +
      """{"text":"max(v) INT","buffers":["INT"]},{"text":"collect_list(v) ARRAY<INT>","buffers":["BINARY in chunks"]}""" +
      """]}""",
    """{"shared":["window_number INT","mullion_no_key INT","k STRING"],"together":{"all":{"format":1,"window":{"siz""" +
      """e":30000000,"slide":30000000,"offset":0},"allowedLateness":0,"earlyEvery":0,"earlyUnchanged":false,"refineme""" +
      """nts":{"onTime":false,"accumulate":true,"empty":false,"ids":false,"atEnd":false},"clock":"event time","keys":""" +
      """[],"aggregates":["count(v) AS count","sum(v) AS sum","avg(v) AS avg","max(v) AS max"],"buffers":["BIGINT","B""" +
      """IGINT","DOUBLE","BIGINT","INT"],"input":"{\"type\":\"struct\",\"fields\":[{\"name\":\"v\",\"type\":\"integer""" +
      """\",\"nullable\":true,\"metadata\":{}}]}","by":[],"functions":[{"text":"count(v) BIGINT","buff""" +
      """ers":["BIGINT"]},{"text":"sum(v) BIGINT","buffers":["BIGINT"]},{"text":"avg(v) DOUBLE","buffers":["DOUBL""" +
      """E","BIGINT"]},{"text":"max(v) INT","buffers":["INT"]}]},"by_key":{"format":2,"window":{"gap":10000000},"allo""" +
      """wedLateness":0,"earlyEvery":0,"earlyUnchanged":false,"refinements":{"onTime":false,"accumulate":true,"empt""" +
      """y":false,"ids":false,"atEnd":false},"clock":"event time","keys":["k STRING"],"aggregates":["count(v) AS coun""" +
      """t","sum(v) AS sum","avg(v) AS avg","max(v) AS max"],"buffers":["BIGINT","BIGINT","DOUBLE","BIGINT","INT"],"i""" +
      """nput":"{\"type\":\"struct\",\"fields\":[{\"name\":\"k\",\"type\":\"string\",\"nullable\":true,\"metadata\":{""" +
      """}},{\"name\":\"v\",\"type\":\"integer\",\"nullable\":true,\"metadata\":{}}]}","by":["k AS k"],"fun""" +
      """ctions":[{"text":"count(v) BIGINT","buffers":["BIGINT"]},{"text":"sum(v) BIGINT","buffers":["BIGINT"]""" +
      """},{"text":"avg(v) DOUBLE","buffers":["DOUBLE","BIGINT"]},{"text":"max(v) INT","buffers":["INT"]}]}}}"""
  )
}
