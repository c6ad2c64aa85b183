package org.apache.spark.sql.mullion.shim

import java.net.{StandardProtocolFamily, UnixDomainSocketAddress}
import java.nio.channels.ServerSocketChannel
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, Paths}
import java.nio.file.attribute.PosixFilePermissions
import java.util.concurrent.atomic.AtomicLong

/** Unix domain sockets between a task and its Python worker, in a folder that only this user can enter. */
private[mullion] object LocalSocket {
  private val numbers = new AtomicLong

  /** The most bytes of a socket's name: 108 on Linux and 104 elsewhere, with the one that ends it. */
  private val LongestName = 103

  /** The rest of the name after the folder for temporary files: "/mullion", a number of up to 20 digits, and one in it.
    */
  private val LongestEnd = "/mullion".length + 20 + 1 + Long.MaxValue.toString.length

  /** The folder for sockets. A folder for temporary files may have a name that is too long for theirs. */
  def parentOf(temporary: Path): Path = {
    val name = temporary.toAbsolutePath.toString.getBytes(UTF_8)
    if (name.length + LongestEnd <= LongestName) temporary else Paths.get("/tmp")
  }

  private lazy val folder: Path = {
    val parent = parentOf(Paths.get(System.getProperty("java.io.tmpdir")))
    val created = Files.createTempDirectory(
      parent,
      "mullion",
      PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"))
    )
    created.toFile.deleteOnExit()
    created
  }

  /** The path of a new socket. */
  def newPath(): Path = folder.resolve(numbers.incrementAndGet().toString)

  /** A socket that waits for connections at `path`. */
  def listen(path: Path): ServerSocketChannel = {
    val channel = ServerSocketChannel.open(StandardProtocolFamily.UNIX)
    channel.bind(UnixDomainSocketAddress.of(path))
    channel
  }
}
