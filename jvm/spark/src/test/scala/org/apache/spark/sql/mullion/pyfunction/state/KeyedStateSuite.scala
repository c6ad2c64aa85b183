package org.apache.spark.sql.mullion.pyfunction.state

import java.io.{DataInputStream, DataOutputStream}
import java.net.UnixDomainSocketAddress
import java.nio.channels.{Channels, SocketChannel}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}
import java.util.UUID

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.pyfunction.keyed.StateServer
import org.apache.spark.sql.mullion.shim.LocalSocket
import org.apache.spark.sql.mullion.state.PartitionOpener
import org.apache.spark.sql.mullion.state.record.StatePartition
import org.apache.spark.sql.mullion.state.rocksdb.{KeyLayout, RocksDbPartition}
import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolders}

/** The state of functions in a partition, directly and over the socket. */
class KeyedStateSuite extends SparkSuite with TemporaryFolders {
  import KeyedStateSuite._

  /** The state of one partition, batch after batch. */
  private final class Batches(folder: Path) {
    spark.streams // stores report to it
    private var version = 0L
    private var versionId = Option.empty[String]

    private val main = KeyedState.families.head

    private lazy val provider: StateStoreProvider = {
      val hadoop = new Configuration()
      hadoop.set(StreamExecutionRunId, UUID.randomUUID().toString)
      val conf = new StateStoreConf(PartitionOpener.confOf(new SQLConf))
      val id = StateStoreProviderId(StateStoreId(folder.toUri.toString, 0, 0), UUID.randomUUID())
      StateStoreProvider
        .createAndInit(id, main.key, main.value, KeyLayout.own.encoder(main), true, conf, hadoop, false, None)
    }

    private def partition(): StatePartition =
      new RocksDbPartition(provider.getStore(version, versionId), main, KeyedState.families.tail)

    /** One batch, which is committed. Returns its number of records. */
    def batch(eventUs: Long = 0L, wallUs: Long = 0L)(work: KeyedState => Unit): Long = {
      val opened = partition()
      val state = of(opened, eventUs, wallUs)
      work(state)
      val records = state.commit()
      version += 1
      versionId = opened.store.getStateStoreCheckpointInfo().stateStoreCkptId
      records
    }

    /** A batch that fails. */
    def failed()(work: KeyedState => Unit): Unit = {
      val opened = partition()
      work(of(opened, 0L, 0L))
      opened.store.abort()
    }

    private def of(opened: StatePartition, eventUs: Long, wallUs: Long): KeyedState = new KeyedState(
      opened,
      {
        case TimerClock.Event => eventUs
        case TimerClock.Wall  => wallUs
      }
    )

    def close(): Unit = provider.close()
  }

  private def inBatches(name: String)(test: Batches => Unit): Unit = folder.test(name) { folder =>
    val batches = new Batches(folder)
    try test(batches)
    finally batches.close()
  }

  inBatches("the next batch has committed values only") { batches =>
    assertEquals(
      batches.batch() { state =>
        state.put(bytes("a"), bytes("1"), there = None)
        state.put(bytes("b"), bytes(""), there = Some(false))
        state.put(bytes("a"), bytes("2"), there = Some(true))
      },
      2L
    )
    batches.failed() { state =>
      state.put(bytes("a"), bytes("lost"), there = None)
      state.remove(bytes("b"), there = None)
    }
    assertEquals(
      batches.batch() { state =>
        assertEquals(Option(state.get(bytes("a"))).map(text), Some("2"))
        assertEquals(Option(state.get(bytes("b"))).map(text), Some(""))
        assertEquals(Option(state.get(bytes("c"))), None)
        state.remove(bytes("a"), there = None)
        state.remove(bytes("c"), there = None)
      },
      1L
    )
  }

  inBatches("a scan returns the records of its prefix as of its start") { batches =>
    val keys = Seq("", "k", "kk", "prefix of eight and more", "prefix of eight and less", "prefix o", "l", "\u00ff")
    batches.batch()(state => keys.foreach(k => state.put(bytes(k), bytes(k), there = None)))
    batches.batch() { state =>
      def keysFrom(prefix: String) = state.scan(bytes(prefix)).map(p => text(p.key.getBinary(0))).sorted
      assertEquals(keysFrom(""), keys.sorted)
      assertEquals(keysFrom("k"), Seq("k", "kk"))
      assertEquals(keysFrom("prefix of eight and "), Seq("prefix of eight and less", "prefix of eight and more"))
      assertEquals(keysFrom("m"), Vector.empty[String])
      val running = state.scan(bytes("k"))
      state.put(bytes("kkk"), bytes(""), there = None)
      assertEquals(running.map(p => text(p.key.getBinary(0))).sorted, Seq("k", "kk"))
    }
    ()
  }

  inBatches("due timers are returned in order, and other timers are not read") { batches =>
    batches.batch() { state =>
      (1000L to 1 by -1).foreach(due => state.putTimer(TimerClock.Event, due * 10, bytes(s"$due")))
      state.putTimer(TimerClock.Event, 20, bytes("2"))
      state.putTimer(TimerClock.Wall, 5, bytes("wall"))
      assertEquals(state.nextDue(TimerClock.Event), 10L)
    }
    batches.batch(eventUs = 35) { state =>
      assert(state.isDue)
      val before = state.rowsRead
      val due = state.due(TimerClock.Event, 35).map(t => (state.dueOf(t.key), text(state.keyOf(t.key))))
      assertEquals(due, Seq(10L -> "1", 20L -> "2", 30L -> "3"))
      assert(state.rowsRead - before <= 4, "one more row ends the scan")
      due.foreach { case (at, key) => state.removeTimer(TimerClock.Event, at, bytes(key)) }
      assertEquals(state.nextDue(TimerClock.Event), 40L)
    }
    batches.batch(eventUs = 39) { state =>
      assert(!state.isDue)
      // Removed timers are not read again.
      val before = state.rowsRead
      assertEquals(state.nextDue(TimerClock.Event), 40L)
      assert(state.rowsRead - before <= 2)
      assertEquals(state.nextDue(TimerClock.Wall), 5L)
      state.removeTimer(TimerClock.Wall, 5, bytes("wall"))
      assertEquals(state.nextDue(TimerClock.Wall), KeyedState.Never)
      // Before all others, and before the epoch.
      state.putTimer(TimerClock.Event, -7, bytes("early"))
    }
    batches.batch(eventUs = 39) { state =>
      assert(state.isDue)
      assertEquals(state.due(TimerClock.Event, 39).map(t => state.dueOf(t.key)), Seq(-7L))
      // The due timer was not removed. It requests no further batch.
      assertEquals(state.nextDue(TimerClock.Event), 40L)
    }
    ()
  }

  test("the head of a key is in the order of its bytes") {
    val keys = Seq("", "\u0000", "a", "a\u0000", "aa", "ab", "b", "\u007f").map(bytes) :+ Array(0x80.toByte) :+
      Array(0xff.toByte)
    val heads = keys.map(KeyedState.headOf(_))
    assertEquals(heads, heads.sorted)
    assertEquals(KeyedState.headOf(bytes("12345678")), KeyedState.headOf(bytes("123456789")))
  }

  /** A function's end of the socket. */
  private final class Client(server: StateServer) {
    private val channel = SocketChannel.open(UnixDomainSocketAddress.of(server.path))
    private val in = new DataInputStream(Channels.newInputStream(channel))
    private val out = new DataOutputStream(Channels.newOutputStream(channel))

    def ask(operation: Int)(body: DataOutputStream => Unit): (Int, DataInputStream) = {
      val content = new java.io.ByteArrayOutputStream()
      body(new DataOutputStream(content))
      out.writeInt(content.size + 1)
      out.writeByte(operation)
      content.writeTo(out)
      val length = in.readInt()
      val status = in.readByte().toInt
      (status, new DataInputStream(new java.io.ByteArrayInputStream(in.readNBytes(length - 1))))
    }

    def close(): Unit = channel.close()
  }

  private def sized(to: DataOutputStream, text: String): Unit = {
    to.writeInt(bytes(text).length)
    to.write(bytes(text))
  }

  private def sized(from: DataInputStream): String = text(from.readNBytes(from.readInt()))

  folder.test("a function reads, writes and scans over the socket, and reports its end") { folder =>
    val batches = new Batches(folder)
    batches.batch() { state =>
      val server = new StateServer(state, None)
      val client = new Client(server)
      val (written, _) = client.ask(2) { to =>
        (0 until 5000).foreach { n => to.writeByte(2); sized(to, s"key $n"); sized(to, s"value $n") }
        to.writeByte(2); sized(to, "key 0"); to.writeInt(-1)
      }
      assertEquals(written, 0)
      val (_, got) = client.ask(1) { to => sized(to, "key 0"); sized(to, "key 1") }
      assertEquals((got.readInt(), sized(got), got.available), (-1, "value 1", 0))
      // The records come in two chunks; the first announces the second.
      val scanned = mutable.Set.empty[String]
      var (_, chunk) = client.ask(3)(raw(_, "key"))
      var more = true
      var chunks = 0
      while (more) {
        val number = chunk.readInt()
        more = chunk.readByte() == 1
        (0 until chunk.readInt()).foreach { _ => scanned += sized(chunk); sized(chunk) }
        chunks += 1
        if (more) chunk = client.ask(6)(_.writeInt(number))._2
      }
      assertEquals((scanned.size, chunks), (4999, 2))
      client.ask(4) { to => to.writeByte(1); to.writeByte(0); to.writeLong(7L); sized(to, "timer") }
      val (_, due) = client.ask(5) { to => to.writeByte(0); to.writeLong(7L); to.writeLong(7L) }
      due.skipBytes(4)
      assertEquals((due.readByte().toInt, due.readInt(), due.readLong(), sized(due)), (0, 1, 7L, "timer"))
      val (_, none) = client.ask(5) { to => to.writeByte(0); to.writeLong(9L); to.writeLong(8L) }
      none.skipBytes(5)
      assertEquals(none.readInt(), 0)
      client.ask(9) { to => to.writeLong(3L); to.write("views".getBytes(UTF_8)) }
      client.ask(9) { to => to.writeLong(1L); to.write("höfe".getBytes(UTF_8)) }
      assertEquals(state.rowsLate, 4L)
      assertEquals(
        state.lateLines.map(_.takeWhile(_ != ':')),
        Seq(
          "3 events were too late for 'views' and changed nothing there",
          "1 event was too late for 'höfe' and changed nothing there"
        )
      )
      assert(!server.isFinished)
      assertEquals(client.ask(8)(_ => ())._1, 0)
      assert(server.isFinished)
      server.close()
      assert(Files.notExists(server.path))
      client.close()
    }
    batches.close()
  }

  folder.test("a scan returns each record's own value even if the function changes state between its chunks") {
    folder =>
      val batches = new Batches(folder)
      batches.batch() { state =>
        (0 until 9000).foreach(n => state.put(bytes(f"key $n%04d"), bytes(s"value $n"), there = Some(false)))
      }
      batches.batch() { state =>
        val server = new StateServer(state, None)
        val client = new Client(server)
        val scanned = mutable.ArrayBuffer.empty[(String, String)]
        var (_, chunk) = client.ask(3)(raw(_, "key"))
        var more = true
        while (more) {
          val number = chunk.readInt()
          more = chunk.readByte() == 1
          (0 until chunk.readInt()).foreach(_ => scanned += sized(chunk) -> sized(chunk))
          client.ask(1)(to => sized(to, "key 0000"))
          client.ask(2) { to => to.writeByte(1); sized(to, "key 0001"); sized(to, "another") }
          if (more) chunk = client.ask(6)(_.writeInt(number))._2
        }
        assertEquals(scanned.toSeq, (0 until 9000).map(n => f"key $n%04d" -> s"value $n"))
        server.close()
        client.close()
      }
      batches.close()
  }

  test("the path of a socket is short enough for any temporary folder") {
    val folders = Seq(10, 47, 48, 55, 75, 80, 107, 300).map(n => java.nio.file.Paths.get("/" + "t" * (n - 1)))
    folders.foreach { folder =>
      val parent = LocalSocket.parentOf(folder)
      val longest = parent.resolve("mullion" + "9" * 20).resolve(Long.MaxValue.toString)
      assert(longest.toString.getBytes(UTF_8).length <= 103, s"$folder: $longest")
      if (folder.toString.length <= 48) assertEquals(parent, folder)
    }
  }

  folder.test("an error of the function keeps its text, and an error of a request is reported") { folder =>
    val batches = new Batches(folder)
    batches.batch() { state =>
      val server = new StateServer(state, None)
      val client = new Client(server)
      val (status, refused) = client.ask(6)(_.writeInt(12))
      assertEquals(status, 1)
      assert(text(refused.readAllBytes()).startsWith("ERROR\nThe state of a function could not be used"))
      client.ask(7)(raw(_, "FUNCTION_FAILED\nit broke\nin two lines"))
      server.failure match {
        case Some(e: dev.mullion.MullionException) =>
          assertEquals((e.condition, e.getMessage), ("FUNCTION_FAILED", "it broke\nin two lines"))
        case other => fail(s"$other")
      }
      client.close()
      server.close()
    }
    batches.close()
  }

  folder.test("a server whose function never connects, or disconnects silently, can be closed") { folder =>
    val batches = new Batches(folder)
    batches.batch() { state =>
      new StateServer(state, None).close()
      val server = new StateServer(state, None)
      new Client(server).close()
      server.close()
      assert(!server.isFinished)
      // A request in progress is not awaited.
      val busy = new StateServer(state, None)
      val client = new Client(busy)
      client.ask(1)(sized(_, "a"))
      busy.close()
      client.close()
    }
    batches.close()
  }

  private def raw(to: DataOutputStream, text: String): Unit = to.write(bytes(text))
}

object KeyedStateSuite {
  private val StreamExecutionRunId = "sql.streaming.runId"

  private def bytes(text: String): Array[Byte] = text.getBytes(UTF_8)

  private def text(bytes: Array[Byte]): String = new String(bytes, UTF_8)
}
