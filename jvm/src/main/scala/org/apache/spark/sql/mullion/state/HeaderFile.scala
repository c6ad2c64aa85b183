package org.apache.spark.sql.mullion.state

import java.nio.charset.StandardCharsets.UTF_8

import scala.io.Source
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s.Formats
import org.json4s.jackson.Serialization

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

/** A small file of JSON beside an operator's state that says what it means. It is written once. */
private[mullion] final class HeaderFile[T <: AnyRef: Manifest](name: String)(implicit formats: Formats) {

  def path(operatorRoot: Path): Path = new Path(operatorRoot, s"_mullion/$name")

  def read(operatorRoot: Path, hadoopConf: Configuration): Option[T] = {
    val files = CheckpointFileManager.create(operatorRoot, hadoopConf)
    val file = path(operatorRoot)
    Option.when(files.exists(file)) {
      Using.resource(files.open(file))(in => Serialization.read[T](Source.fromInputStream(in, UTF_8.name).mkString))
    }
  }

  def write(operatorRoot: Path, hadoopConf: Configuration, header: T): Unit = {
    val file = path(operatorRoot)
    val files = CheckpointFileManager.create(operatorRoot, hadoopConf)
    files.mkdirs(file.getParent)
    val out = files.createAtomic(file, overwriteIfPossible = false)
    try {
      out.write(Serialization.writePretty(header).getBytes(UTF_8))
      out.close()
    } catch {
      case e: Throwable =>
        out.cancel()
        throw e
    }
  }
}
