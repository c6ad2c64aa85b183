package org.apache.spark.sql.mullion.pyfunction.dataflow

import java.nio.file.attribute.FileTime
import java.nio.file.{Files, Path}

import org.apache.spark.sql.connector.read.streaming.ReadLimit
import org.apache.spark.sql.mullion.TemporaryFolders

import dev.mullion.MullionSuite

class EntryLogSuite extends MullionSuite with TemporaryFolders {
  private def write(folder: Path, numbers: Int*): Unit =
    numbers.foreach(number => Files.write(EntryLog.file(folder, number.toLong), Array(number.toByte)))

  private def latest(stream: EntryLogStream, from: Long) =
    Option(stream.latestOffset(stream.deserializeOffset(s"""{"entry": $from}"""), ReadLimit.allAvailable()))

  private def offset(stream: EntryLogStream, from: Long) = latest(stream, from).get.json

  folder.test("there is no offset before the first entry, so that Spark runs no batch of none") { folder =>
    val stream = new EntryLogStream(folder)
    assertEquals(latest(stream, 0), None)
    write(folder, 0)
    assertEquals(offset(stream, 0), """{"entry": 1}""")
  }

  folder.test("the first batch of a log that gathers waits until it is full, or no entry came for a moment") { folder =>
    val stream = new EntryLogStream(folder, gathers = true)
    write(folder, 0 to 2: _*)
    val file = EntryLog.file(folder, 2)
    def writtenBefore(ms: Long) =
      Files.setLastModifiedTime(file, FileTime.fromMillis(System.currentTimeMillis() - ms))
    writtenBefore(-10)
    assertEquals(latest(stream, 0), None)
    writtenBefore(1000)
    assertEquals(offset(stream, 0), """{"entry": 3}""")
    writtenBefore(-10)
    assertEquals(offset(stream, 2), """{"entry": 3}""")
    write(folder, 3 to 23: _*)
    assertEquals(offset(stream, 0), """{"entry": 24}""")
  }

  folder.test("an offset is the number of the entry that comes next, of a batch that is not too large") { folder =>
    val stream = new EntryLogStream(folder)
    write(folder, 0 to 29: _*)
    assertEquals(offset(stream, 0), """{"entry": 24}""")
    assertEquals(offset(stream, 24), """{"entry": 30}""")
    assertEquals(offset(stream, 30), """{"entry": 30}""")
  }

  folder.test("each entry is read by a task, as its number and its bytes") { folder =>
    write(folder, 3, 4, 5)
    val stream = new EntryLogStream(folder)
    def at(number: Int) = stream.deserializeOffset(s"""{"entry":$number}""")
    val read = stream.planInputPartitions(at(3), at(5)).toSeq.map { partition =>
      val reader = stream.createReaderFactory().createReader(partition)
      assert(reader.next())
      val row = reader.get()
      assert(!reader.next())
      (row.getLong(0), row.getBinary(1).toSeq)
    }
    assertEquals(read, Seq((3L, Seq[Byte](3)), (4L, Seq[Byte](4))))
  }

  folder.test("entries that no batch asks for again are deleted, but for the newest") { folder =>
    write(folder, 0, 1, 2, 3)
    val stream = new EntryLogStream(folder)
    stream.commit(stream.deserializeOffset("""{"entry": 2}"""))
    assertEquals(EntryLog.numbers(folder).sorted, Seq(2L, 3L))
    stream.commit(stream.deserializeOffset("""{"entry": 4}"""))
    assertEquals(EntryLog.numbers(folder), Seq(3L))
  }
}
