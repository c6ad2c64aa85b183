package org.apache.spark.sql.mullion.expressions.udf

import java.io.{
  BufferedInputStream,
  ByteArrayOutputStream,
  DataInputStream,
  DataOutputStream,
  EOFException,
  IOException
}
import java.nio.ByteBuffer
import java.nio.channels.{Channels, ClosedChannelException, SocketChannel}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files
import java.util.Base64
import java.util.concurrent.ConcurrentHashMap

import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods.{compact, render}

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.shim.{ArrowRows, LocalSocket, PythonFrames, SparkVersionShim}

import dev.mullion.MullionException

/** The Python worker of a task for one aggregate: adds rows to accumulators, at the task's request.
  *
  * {{{
  *   request   int length | int panes | pane* | [record batch of the rows of all panes]
  *   pane      int accumulators | (int length, accumulator)* | int rows
  *   answer    int length | byte status | (int length, accumulator)*       status 0
  *                                      | int pane | message               status 1: the function failed
  * }}}
  *
  * Spark starts and ends the worker like any other, and uses it again in the next task. Its function connects to a
  * socket of the task, and ends when the task closes it. A thread waits for that end, because Spark's runner takes
  * input and output as iterators and cannot answer a single request.
  */
final class AggregateWorker private (of: PythonAggregate, context: TaskContext) {
  import AggregateWorker._

  private val rows = new ArrowRows(of.rowType)
  private val path = LocalSocket.newPath()
  private val listening = LocalSocket.listen(path)
  @volatile private var failure = Option.empty[Throwable]

  private val thread = new Thread(() => run(), s"mullion aggregate ${of.call.name}")
  thread.setDaemon(true)
  thread.start()

  private val channel: SocketChannel =
    try listening.accept()
    catch { case e: ClosedChannelException => throw ended(e) }
    finally {
      listening.close()
      Files.deleteIfExists(path)
    }
  private val in = new DataInputStream(new BufferedInputStream(Channels.newInputStream(channel), BufferSize))

  /** For each pane the accumulator of its accumulators and rows.
    *
    * @param nameOf
    *   the name of a pane by its index, as in `The pane [0, 3) of k=a`
    */
  def add(panes: Seq[PaneRows], nameOf: Int => String): Seq[Array[Byte]] = {
    var failed = 0
    try addAll(panes, failed = _)
    catch { case e: MullionException => throw FailedAggregate.in(nameOf(failed), e) }
  }

  /** The same for one pane, whose name the caller adds to errors. */
  def add(pane: PaneRows): Array[Byte] = addAll(Seq(pane), _ => ()).head

  private def addAll(panes: Seq[PaneRows], note: Int => Unit): Seq[Array[Byte]] = {
    val request = requestOf(panes)
    val answer =
      try {
        while (request.hasRemaining) channel.write(request)
        in.readNBytes(in.readInt())
      } catch { case e: IOException => throw ended(e) }
    val body = ByteBuffer.wrap(answer)
    if (body.get() != Done) {
      note(body.getInt())
      throw FailedAggregate(new String(answer, body.position(), body.remaining(), UTF_8))
    }
    panes.map { _ =>
      val accumulator = new Array[Byte](body.getInt())
      body.get(accumulator)
      accumulator
    }
  }

  private def requestOf(panes: Seq[PaneRows]): ByteBuffer = {
    val bytes = new Request
    val out = new DataOutputStream(bytes)
    out.writeInt(0)
    out.writeInt(panes.length)
    var hasRows = false
    panes.foreach { pane =>
      out.writeInt(pane.accumulatorCount)
      var i = 0
      while (i < pane.accumulatorCount) {
        out.writeInt(pane.accumulator(i).length)
        out.write(pane.accumulator(i))
        i += 1
      }
      out.writeInt(pane.rowCount)
      pane.rowsInOrder(of.time.isDefined).foreach(row => rows.add(row))
      hasRows ||= pane.rowCount > 0
    }
    if (hasRows) {
      // Arrow's columns begin at multiples of eight bytes of the message.
      while ((bytes.size - 4) % 8 != 0) out.writeByte(0)
      rows.writeTo(out)
    }
    bytes.content.putInt(0, bytes.size - 4)
  }

  /** The reason why the worker has no answer: that of its function, if it has failed. */
  private def ended(e: IOException): Throwable = {
    thread.join(EndMs)
    (failure.getOrElse(e), e) match {
      case (ofFunction, _) if PythonFrames.isOfPython(ofFunction) => ofFunction
      case (cause, _: EOFException | _: ClosedChannelException)   =>
        new IOException(s"The Python worker of ${of.call.name} ended before it answered.", cause)
      case (cause, _) => cause
    }
  }

  private def run(): Unit = {
    TaskContext.setTaskContext(context)
    try {
      val header = ("socket" -> path.toString) ~ ("schema" -> Base64.getEncoder.encodeToString(rows.schemaBytes))
      val frames =
        PythonFrames(of.call.code, SQLConf.get, SparkVersionShim.unreportedPythonMetrics, of.call.artifacts)
      val frame = InternalRow(Header, compact(render(header)).getBytes(UTF_8))
      frames.run(context.partitionId(), Iterator.single(frame)).foreach(_ => ())
    } catch { case e: Throwable => failure = Some(e) }
    finally {
      // The function may have failed before it connected.
      listening.close()
      TaskContext.unset()
    }
  }

  private def close(): Unit = {
    channel.close()
    rows.close()
    // The worker becomes free for the next task before Spark, at the end of this one, would end it.
    if (!context.isInterrupted() && !context.isFailed()) thread.join(EndMs)
  }
}

object AggregateWorker {
  private final val Header = -1
  private final val Done = 0
  private final val EndMs = 10000L
  private final val BufferSize = 1 << 16

  private val workers = new ConcurrentHashMap[(Long, PythonAggregate.Call), AggregateWorker]

  /** The worker of the running task, which starts with its first request. */
  def of(aggregate: PythonAggregate): AggregateWorker = {
    val context = TaskContext.get()
    val key = (context.taskAttemptId(), aggregate.call)
    val running = workers.get(key)
    if (running ne null) running
    else {
      val worker = new AggregateWorker(aggregate, context)
      workers.put(key, worker)
      // Listeners run in reverse order: this one before that of Spark's runner, which has started by now.
      context.addTaskCompletionListener[Unit] { _ =>
        workers.remove(key)
        worker.close()
      }
      worker
    }
  }

  private final class Request extends ByteArrayOutputStream(1024) {
    def content: ByteBuffer = ByteBuffer.wrap(buf, 0, count)
  }
}
