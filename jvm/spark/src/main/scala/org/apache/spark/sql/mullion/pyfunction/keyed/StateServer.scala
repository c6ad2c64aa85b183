package org.apache.spark.sql.mullion.pyfunction.keyed

import java.io.{BufferedInputStream, BufferedOutputStream, DataInputStream, DataOutputStream, EOFException}
import java.nio.ByteBuffer
import java.nio.channels.{Channels, ClosedChannelException, SocketChannel}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.TaskContext
import org.apache.spark.sql.mullion.pyfunction.state.{KeyedState, TimerClock}
import org.apache.spark.sql.mullion.shim.LocalSocket
import org.apache.spark.sql.mullion.state.record.FamilyScan

import dev.mullion.MullionException

/** Gives one Python function access to the state of its task: a Unix domain socket in a folder that only this user can
  * enter, for one connection.
  *
  * {{{
  *   request   int length | byte operation | body
  *   answer    int length | byte status    | body          status 0: done, 1: failed, "condition\nmessage"
  *
  *   get       (int length, key)*                                  -> (int length or -1, value)*
  *   write     (byte there, int length, key, int length or -1, value)*
  *   scan      prefix                                              -> chunk of (int length, key, int length, value)
  *   timers    (byte put, byte clock, long due, int length, key)*
  *   due       byte clock, long until, long from                   -> chunk of (long due, int length, key)
  *   next      int scan                                            -> chunk
  *   failed    condition, newline, message
  *   end
  *   late      long rows
  *   chunk     int scan | byte more | int records | records
  * }}}
  *
  * A thread of this server handles requests one after another, while the task waits for the function.
  */
final class StateServer(state: KeyedState, context: Option[TaskContext]) extends AutoCloseable {
  import StateServer._

  val path: Path = LocalSocket.newPath()

  private val listening = LocalSocket.listen(path)

  @volatile private var connection = Option.empty[SocketChannel]
  @volatile private var failed = Option.empty[Throwable]
  @volatile private var reported = Option.empty[MullionException]
  @volatile private var finished = false
  @volatile private var closing = false
  private val scans = mutable.HashMap.empty[Int, OpenScan]
  private var opened = 0

  private val thread = new Thread(() => run(), s"mullion state of ${path.getFileName}")
  thread.setDaemon(true)
  thread.start()

  /** True if the function has ended, and all its writes are in the state. */
  def isFinished: Boolean = finished

  /** The reason why the function failed: its own report, or an error here. */
  def failure: Option[Throwable] = reported.orElse(failed)

  /** Ends the connection. Afterwards nothing is read or written any more. */
  override def close(): Unit = {
    closing = true
    listening.close()
    connection.foreach(_.close())
    Files.deleteIfExists(path)
    thread.join()
    scans.values.foreach(_.scan.close())
    scans.clear()
  }

  private def run(): Unit = {
    // Spark's stores read the context of the task, such as its settings.
    context.foreach(TaskContext.setTaskContext)
    try {
      val channel = listening.accept()
      connection = Some(channel)
      if (closing) throw new ClosedChannelException
      // A single connection is accepted.
      listening.close()
      Files.deleteIfExists(path)
      serve(channel)
    } catch {
      case _: ClosedChannelException | _: EOFException => ()
      case e: Throwable                                => failed = failed.orElse(Some(e))
    } finally {
      connection.foreach(_.close())
      TaskContext.unset()
    }
  }

  private def serve(channel: SocketChannel): Unit = {
    val in = new DataInputStream(new BufferedInputStream(Channels.newInputStream(channel), BufferSize))
    val out = new DataOutputStream(new BufferedOutputStream(Channels.newOutputStream(channel), BufferSize))
    while (true) {
      val length = in.readInt()
      val operation = in.readByte()
      val body = in.readNBytes(length - 1)
      if (body.length < length - 1) throw new EOFException()
      val answer =
        try state.synchronized(perform(operation, ByteBuffer.wrap(body)))
        catch {
          case NonFatal(e) =>
            failed = failed.orElse(Some(e))
            val condition = e match {
              case ours: MullionException => ours.condition
              case _                      => "ERROR"
            }
            new Answer(Failed).bytes(s"$condition\nThe state of a function could not be used: $e".getBytes(UTF_8))
        }
      answer.writeTo(out)
      out.flush()
    }
  }

  private def perform(operation: Byte, body: ByteBuffer): Answer = {
    val answer = new Answer(Done)
    operation.toInt match {
      case Get =>
        while (body.hasRemaining) {
          val value = state.get(bytesOf(body))
          if (value eq null) answer.int(None_) else answer.sized(value)
        }
      case Write =>
        while (body.hasRemaining) {
          val there = body.get() match {
            case 0 => Some(false)
            case 1 => Some(true)
            case _ => None
          }
          val key = bytesOf(body)
          val length = body.getInt()
          if (length == None_) state.remove(key, there) else state.put(key, bytesOf(body, length), there)
        }
      case Scan =>
        val scan = state.scan(remaining(body))
        chunk(
          answer,
          open(scan, (on, to) => { to.sized(on.key.getBinary(0)); to.sized(on.value.getBinary(0)) })
        )
      case Timers =>
        while (body.hasRemaining) {
          val put = body.get() != 0
          val clock = TimerClock.all(body.get().toInt)
          val due = body.getLong()
          val key = bytesOf(body)
          if (put) state.putTimer(clock, due, key) else state.removeTimer(clock, due, key)
        }
      case Due =>
        val clock = TimerClock.all(body.get().toInt)
        val until = body.getLong()
        val scan = state.due(clock, until, body.getLong())
        chunk(
          answer,
          open(scan, (on, to) => { to.long(state.dueOf(on.key)); to.sized(state.keyOf(on.key)) })
        )
      case Next =>
        val number = body.getInt()
        chunk(answer, scans.getOrElse(number, throw new IllegalStateException(s"scan $number is not open")))
      case Report =>
        val text = new String(remaining(body), UTF_8)
        val (condition, message) = text.splitAt(text.indexOf('\n'))
        reported = Some(new MullionException(condition, message.drop(1)))
      case End  => finished = true
      case Late =>
        val rows = body.getLong()
        state.countLate(new String(remaining(body), UTF_8), rows)
      case other => throw new IllegalArgumentException(s"$other is no operation")
    }
    answer
  }

  private def open(scan: KeyedState#Scan, write: WriteRecord): OpenScan = {
    opened += 1
    val open = OpenScan(opened, scan, write)
    scans(opened) = open
    open
  }

  private def chunk(answer: Answer, open: OpenScan): Unit = {
    val records = new Answer(Done)
    var n = 0
    while (n < ChunkRecords && records.size < ChunkBytes && open.scan.next()) {
      open.write(open.scan, records)
      n += 1
    }
    // Records are not read in advance, because the function may change state before it requests the next chunk, which
    // may be empty.
    val more = !open.scan.isEnded
    if (!more) { open.scan.close(); scans.remove(open.number) }
    answer.int(open.number).byte(if (more) 1 else 0).int(n).all(records)
    ()
  }
}

object StateServer {
  private final val Get = 1
  private final val Write = 2
  private final val Scan = 3
  private final val Timers = 4
  private final val Due = 5
  private final val Next = 6
  private final val Report = 7
  private final val End = 8
  private final val Late = 9

  private final val Done = 0
  private final val Failed = 1
  private final val None_ = -1

  private val BufferSize = 1 << 16
  private val ChunkRecords = 4096
  private val ChunkBytes = 1 << 20

  private type WriteRecord = (FamilyScan, Answer) => Unit

  private final case class OpenScan(number: Int, scan: KeyedState#Scan, write: WriteRecord)

  /** A growing answer. */
  private final class Answer(status: Int) {
    private val content = new java.io.ByteArrayOutputStream(1024)
    private val data = new DataOutputStream(content)

    def size: Int = content.size

    def byte(value: Int): Answer = { data.writeByte(value); this }

    def int(value: Int): Answer = { data.writeInt(value); this }

    def long(value: Long): Answer = { data.writeLong(value); this }

    def bytes(value: Array[Byte]): Answer = { data.write(value); this }

    def sized(value: Array[Byte]): Answer = int(value.length).bytes(value)

    def all(other: Answer): Answer = { other.content.writeTo(data); this }

    def writeTo(out: DataOutputStream): Unit = {
      out.writeInt(content.size + 1)
      out.writeByte(status)
      content.writeTo(out)
    }
  }

  private def bytesOf(body: ByteBuffer): Array[Byte] = bytesOf(body, body.getInt())

  private def bytesOf(body: ByteBuffer, length: Int): Array[Byte] = {
    val bytes = new Array[Byte](length)
    body.get(bytes)
    bytes
  }

  private def remaining(body: ByteBuffer): Array[Byte] = bytesOf(body, body.remaining)
}
