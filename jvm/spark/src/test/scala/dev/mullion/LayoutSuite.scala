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
    assertEquals(upwards(s"package $spark.state\nobject A { $spark.operator.WindowExec }\n").length, 1)
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
      Seq("spec", "clock", "sets", "rules", "key", "key.session").map(room => s"$windows.$room") ++
      Seq(Errors, "dev.mullion.files", spark) ++
      Seq(
        "shim",
        "expressions.columns",
        "expressions.rows",
        "expressions.functions",
        "expressions.udf",
        "expressions",
        "sqlfunctions",
        "topics",
        "tables",
        "query.note",
        "query",
        "monitor",
        "monitor.ui",
        "state.record",
        "state.btree",
        "state.attempt",
        "state.packed",
        "state.rocksdb",
        "state.header",
        "state",
        "operator.metrics",
        "operator.assign",
        "operator.engine",
        "operator.engine.accumulators",
        "operator.engine.output",
        "operator.engine.timers",
        "operator.engine.aligned",
        "operator.engine.session",
        "operator.engine.rowwise",
        "operator.program",
        "operator.bounded",
        "operator.partial.group",
        "operator.partial",
        "operator",
        "operator.asof",
        "operator.scan",
        "pyfunction.state",
        "pyfunction.expression",
        "pyfunction.agents",
        "pyfunction.dataflow",
        "pyfunction.branch",
        "pyfunction.keyed",
        "pyfunction",
        "plan.options",
        "plan",
        "plan.build.analysis",
        "plan.build",
        "checkpoint.layout",
        "checkpoint.evolve",
        "checkpoint.inspect",
        "checkpoint.compare",
        "checkpoint.imports",
        "checkpoint.savepoint",
        "checkpoint.recover",
        "checkpoint",
        "request",
        "request.sql",
        "request.reject"
      ).map(room => s"$spark.$room") :+
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
