package dev.mullion.files

import java.io.{
  ByteArrayInputStream,
  ByteArrayOutputStream,
  FileNotFoundException,
  ObjectInputStream,
  ObjectOutputStream
}
import java.net.URI
import java.nio.file.{Files, Path => LocalPath}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.fs._

import dev.mullion.MullionSuite

/** Compares the file system with Hadoop's local one. */
class LocalFilesSuite extends MullionSuite {
  private val conf = new Configuration()
  private val ours = new LocalFiles
  private val hadoops = new LocalFileSystem
  Seq(ours, hadoops).foreach(_.initialize(URI.create("file:///"), conf))

  private def fields(status: FileStatus) =
    Seq[Any](
      status.getPath.toString,
      // Spark's file source identifies files by this text.
      status.getPath.toUri.toString,
      status.getLen,
      status.isDirectory,
      status.getModificationTime,
      status.getPermission,
      status.getOwner,
      status.getGroup,
      status.getBlockSize
    )

  private def within(body: LocalPath => Unit): Unit = {
    val folder = Files.createTempDirectory("local files")
    Files.writeString(folder.resolve("a.txt"), "abc")
    Files.createDirectory(folder.resolve("b"))
    body(folder)
  }

  test("files have the names, lengths and permissions that Hadoop's has for them, however they are asked for") {
    within { folder =>
      for (prefix <- Seq("", "file:", "file://"); name <- Seq("", "/a.txt", "/b")) {
        val path = new Path(s"$prefix$folder$name")
        assertEquals(fields(ours.getFileStatus(path)), fields(hadoops.getFileStatus(path)))
        assertEquals(fields(ours.getFileLinkStatus(path)), fields(hadoops.getFileLinkStatus(path)))
        assertEquals(ours.listStatus(path).map(fields).toSet, hadoops.listStatus(path).map(fields).toSet)
      }
    }
  }

  test("a folder is listed as Hadoop lists it, with names of all kinds, and links that lead nowhere left out") {
    within { folder =>
      for (name <- Seq("with space", "a:b", "50%20", "#1", "[x]", ".hidden", "ä", "back\\slash?*"))
        Files.writeString(folder.resolve(name), name)
      Files.createSymbolicLink(folder.resolve("link"), folder.resolve("a.txt"))
      Files.createSymbolicLink(folder.resolve("leads nowhere"), folder.resolve("none"))
      val path = new Path(folder.toString)
      val listed = ours.listStatus(path)
      assertEquals(listed.map(fields).toSet, hadoops.listStatus(path).map(fields).toSet)
      assertEquals(listed.length, 11)
      listed.foreach(status => assertEquals(fields(ours.getFileStatus(status.getPath)), fields(status)))
      intercept[FileNotFoundException](ours.listStatus(new Path(s"$folder/none")))
    }
  }

  test("the status of a file can be sent to another process") {
    within { folder =>
      val status = ours.getFileStatus(new Path(s"$folder/a.txt"))
      val bytes = new ByteArrayOutputStream
      new ObjectOutputStream(bytes).writeObject(status)
      val read = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray)).readObject()
      assertEquals(fields(read.asInstanceOf[FileStatus]), fields(status))
    }
  }

  test("permissions are set and read back") {
    within { folder =>
      val path = new Path(folder.resolve("a.txt").toString)
      for (mode <- Seq("600", "644", "755", "421", "000")) {
        ours.setPermission(path, new FsPermission(mode))
        assertEquals(hadoops.getFileStatus(path).getPermission, new FsPermission(mode))
        assertEquals(ours.getFileStatus(path).getPermission, new FsPermission(mode))
      }
    }
  }

  test("a file that is not there is an error of Hadoop's kind") {
    within(folder => intercept[FileNotFoundException](ours.getFileStatus(new Path(s"$folder/c"))))
  }

  test("a context renames over existing files, and lists like the file system") {
    within { folder =>
      conf.set("fs.AbstractFileSystem.file.impl", classOf[LocalFilesContext].getName)
      val context = FileContext.getFileContext(URI.create("file:///"), conf)
      val (from, to) = (new Path(s"$folder/a.txt"), new Path(s"$folder/c.txt"))
      Files.writeString(folder.resolve("c.txt"), "old")
      context.rename(from, to, Options.Rename.OVERWRITE)
      assertEquals(Files.readString(folder.resolve("c.txt")), "abc")
      assertEquals(
        context.util.listStatus(new Path(folder.toString)).map(fields).toSet,
        hadoops.listStatus(new Path(folder.toString)).map(fields).toSet
      )
    }
  }
}
