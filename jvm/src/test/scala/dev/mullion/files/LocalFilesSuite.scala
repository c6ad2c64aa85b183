package dev.mullion.files

import java.io.FileNotFoundException
import java.net.URI
import java.nio.file.{Files, Path => LocalPath}

import munit.FunSuite
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.fs._

/** What Hadoop's local file system says, this one says too. */
class LocalFilesSuite extends FunSuite {
  private val conf = new Configuration()
  private val ours = new LocalFiles
  private val hadoops = new LocalFileSystem
  Seq(ours, hadoops).foreach(_.initialize(URI.create("file:///"), conf))

  private def said(status: FileStatus) =
    (status.getPath.toString, status.getLen, status.isDirectory, status.getModificationTime, status.getPermission)

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
        assertEquals(said(ours.getFileStatus(path)), said(hadoops.getFileStatus(path)))
        assertEquals(said(ours.getFileLinkStatus(path)), said(hadoops.getFileLinkStatus(path)))
        assertEquals(ours.listStatus(path).map(said).toSet, hadoops.listStatus(path).map(said).toSet)
      }
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

  test("a context renames over what is there, and lists as the file system does") {
    within { folder =>
      conf.set("fs.AbstractFileSystem.file.impl", classOf[LocalFilesContext].getName)
      val context = FileContext.getFileContext(URI.create("file:///"), conf)
      val (from, to) = (new Path(s"$folder/a.txt"), new Path(s"$folder/c.txt"))
      Files.writeString(folder.resolve("c.txt"), "old")
      context.rename(from, to, Options.Rename.OVERWRITE)
      assertEquals(Files.readString(folder.resolve("c.txt")), "abc")
      assertEquals(
        context.util.listStatus(new Path(folder.toString)).map(said).toSet,
        hadoops.listStatus(new Path(folder.toString)).map(said).toSet
      )
    }
  }
}
