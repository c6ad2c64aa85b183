package dev.mullion

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._
import scala.util.Using

/** The order of the packages: each may use those before it only. A cycle or an upward dependency is reported with its
  * file.
  */
class LayoutSuite extends MullionSuite {
  import LayoutSuite._

  test("a package uses only those before it") {
    assertEquals(sources.flatMap(_.upwards), Nil)
  }

  test("every package has a place in the order, and a comment") {
    assertEquals(sources.map(_.room).distinct.filterNot(order.contains).sorted, Nil)
    assertEquals(order.diff(sources.map(_.room)), Nil)
    val described = sources.filter(_.text.contains("/** ")).flatMap(_.describes)
    assertEquals((order.filterNot(_ == Errors)).filterNot(described.contains), Nil)
  }

  test("an arrow that runs up is found") {
    def upwards(text: String) = Source(Path.of("Varint.scala"), text).upwards
    assertEquals(upwards("package dev.mullion.windows.sets\nimport dev.mullion.windows.spec.SliceGrid\n"), Nil)
    assertEquals(upwards("package dev.mullion.windows.sets\nimport dev.mullion.MullionException\n").length, 1)
    assertEquals(upwards("package dev.mullion.files\nimport dev.mullion.MullionException\n"), Nil)
    assertEquals(upwards("package dev.mullion.windows.sets\nimport dev.mullion.windows.key.PaneId\n").length, 1)
    assertEquals(upwards("package dev.mullion.windows.sets\nimport dev.mullion.{Facade, MullionException}\n").length, 1)
    assertEquals(upwards(s"package $spark.state\nobject A { $spark.exec.WindowExec }\n").length, 1)
  }
}

object LayoutSuite {
  private val Errors = "dev.mullion.MullionException"
  private val public = "dev.mullion"
  private val windows = "dev.mullion.windows"
  private val spark = "org.apache.spark.sql.mullion"

  /** From the lowest to the highest. */
  private val order: Seq[String] =
    Seq(windows) ++
      Seq("spec", "clock", "sets", "rules", "key").map(room => s"$windows.$room") ++
      Seq(Errors, "dev.mullion.files") ++
      Seq(spark) ++
      Seq("shim", "expressions", "expressions.udf", "functions", "topics", "tables", "query").map(room =>
        s"$spark.$room"
      ) ++
      Seq("records", "memory", "attempts", "segments", "store", "header").map(room => s"$spark.state.$room") ++
      Seq(s"$spark.state") ++
      Seq("metrics", "assign", "panes").map(room => s"$spark.exec.$room") ++
      Seq("sums", "firings", "keys", "grid", "sessions", "arrival").map(room => s"$spark.exec.panes.$room") ++
      Seq("programs", "batch", "partial").map(room => s"$spark.exec.$room") ++
      Seq(s"$spark.exec", s"$spark.exec.scan") ++
      Seq("python.state", "python.folds", "python.flows", "python").map(room => s"$spark.$room") ++
      Seq("plan", "builders", "checkpoint", "calls").map(room => s"$spark.$room") :+
      public

  private val named =
    "\\b(dev\\.mullion|org\\.apache\\.spark\\.sql\\.mullion)(?:\\.[a-z]\\w*)*(?:\\.(\\w+|\\{[^}]*\\}))?".r

  private final case class Source(path: Path, text: String) {

    /** Comments name classes of any package. */
    private val code = text.replaceAll("(?s)/\\*.*?\\*/", " ").replaceAll("//[^\n]*", " ")

    private val declared = "(?m)^package (\\S+)".r.findFirstMatchIn(code).get.group(1)

    /** The package that a package comment describes. */
    def describes: Option[String] =
      "package object (\\w+)".r.findFirstMatchIn(code).map(m => s"$declared.${m.group(1)}")

    /** Public packages are above all others, except for the errors, which all use. */
    val room: String =
      describes.getOrElse(if (path.endsWith("MullionException.scala")) Errors else declared)

    /** Names in imports or code that belong to a higher package. */
    def upwards: Seq[String] = {
      val uses = named.findAllMatchIn(code.replaceFirst("(?m)^package .*", "")).map { m =>
        val last = Option(m.group(2)).getOrElse("")
        val in = m.matched.stripSuffix(s".$last")
        if (in == public && Seq("MullionException", "{MullionException}").contains(last)) Errors else in
      }
      for (use <- uses.toSeq.distinct if order.indexOf(use) > order.indexOf(room)) yield s"$path ($room) uses $use"
    }
  }

  private lazy val sources: Seq[Source] =
    Seq("jvm/windows", "jvm/spark").flatMap { project =>
      Using.resource(Files.walk(Path.of(project, "src", "main"))) { files =>
        val all = files.iterator.asScala.filter(_.toString.endsWith(".scala")).map(p => Source(p, Files.readString(p)))
        // Names that Spark has elsewhere in another version count at their usual place.
        all.filter(source => source.room.startsWith(public) || source.room.startsWith(spark)).toList
      }
    }
}
