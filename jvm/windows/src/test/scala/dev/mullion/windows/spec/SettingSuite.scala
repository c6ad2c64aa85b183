package dev.mullion.windows.spec

import java.nio.file.{Files, Path, Paths}

import scala.jdk.CollectionConverters._
import scala.util.Using

import dev.mullion.MullionSuite
import dev.mullion.windows.WindowException
import dev.mullion.windows.clock.PaneClock
import dev.mullion.windows.rules.{EarlyFiring, LatePolicy, PaneRules, Refinements}

class SettingSuite extends MullionSuite {

  /** Each setting of [[Setting]], those that take a value with one. */
  private val all: Seq[Setting] = {
    def value(kind: Class[_]): AnyRef = kind.getName match {
      case "long"                           => Long.box(5)
      case "scala.collection.immutable.Seq" => Seq("a", "b")
      case "java.lang.Object"               => Int.box(5)
      case _                                => "drop"
    }
    val methods = Setting.getClass.getDeclaredMethods.toSeq.sortBy(_.getName)
    val factories = methods.filter(m => m.getReturnType == classOf[Setting] && m.getName != "apply" && !m.isSynthetic)
    factories.filterNot(_.getName.startsWith("fromProduct")).map { method =>
      method.setAccessible(true)
      method.invoke(Setting, method.getParameterTypes.toSeq.map(value): _*).asInstanceOf[Setting]
    }
  }

  test("each setting is spelt by each language in its own way") {
    assert(clue(all.length) > 35)
    for (setting <- all; language <- Spelling.languages) Spelling.check(language, setting.in(language))
  }

  test("a setting in a text has the spelling of the request's language, also after a failure") {
    assertEquals(s"${Setting.Ids}", "ids = true")
    assertEquals(Language.Python(s"${Setting.Ids}"), "ids=True")
    intercept[IllegalStateException](Language.Sql(throw new IllegalStateException(s"${Setting.Ids}")))
    assertEquals(Language.Sql(Language.Python("") + s"${Setting.Ids}"), "ids => true")
    assertEquals(Language.current, Language.Scala)
  }

  test("the rules of panes reject options in the words of each language") {
    val (second, none) = (1000000L, Refinements.none)
    val (tumbling, session) = (AlignedWindow.tumbling(second, 0), SessionWindow(Some(second)))
    def rules(window: WindowSpec, refinements: Refinements, lateness: Long = 0L): PaneRules =
      PaneRules(window, lateness, None, LatePolicy.Drop, refinements, PaneClock.EventTime)
    val rejected = Seq[() => Any](
      () => EarlyFiring(0, unchanged = false),
      () => none.copy(count = Some(0)),
      () => none.copy(ids = true, atEnd = true),
      () => LatePolicy.named("keep"),
      () => rules(tumbling, none.copy(onTime = true)),
      () => rules(tumbling, none.copy(accumulate = false)),
      () => rules(session, none.copy(empty = true)),
      () => rules(tumbling, none, lateness = -1),
      () => rules(AroundWindow(second, 0), none.copy(count = Some(1), accumulate = false)),
      () => PaneRules(CustomWindow("shifts"), 0, None, LatePolicy.Drop, none, PaneClock.ProcessingTime)
    )
    for (make <- rejected; language <- Spelling.languages) {
      val message = language(intercept[WindowException](make()).getMessage)
      Spelling.check(language, message)
    }
  }

  // Every message is a literal in some file. One that names an option of `windowed` does so by a Setting.
  test("no message of the code spells an option itself") {
    val main = Iterator
      .iterate(Paths.get("").toAbsolutePath)(_.getParent)
      .map(_.resolve("jvm"))
      .find(Files.isDirectory(_))
      .get
    val files = Using.resource(Files.walk(main))(
      _.iterator.asScala.filter(file => file.toString.endsWith(".scala") && file.toString.contains("/src/main/")).toList
    )
    val spelt = for {
      file <- files if !ofOneLanguage.exists(main.relativize(file).toString.contains)
      literal <- literals(file)
      language <- Seq(Language.Python, Language.Sql)
      mark <- Spelling.of(language, literal) if !mark.matches("None|p => ")
    } yield s"${main.relativize(file)}: $mark in $literal"
    assert(clue(files.length) > 300)
    assertEquals(spelt.mkString("\n"), "")
  }

  /** Code whose messages are all for callers in one language. */
  private val ofOneLanguage = Seq(
    "windows/spec/Setting.scala",
    "mullion/request/sql/",
    "mullion/expressions/udf/PythonAggregate.scala",
    "mullion/sqlfunctions/",
    "mullion/pyfunction/",
    "mullion/shim/",
    "mullion/tables/"
  )

  private def literals(file: Path): Seq[String] = Files
    .readAllLines(file)
    .asScala
    .toSeq
    .filterNot(_.trim.matches("(\\*|//|/\\*).*"))
    .flatMap("\"((?:[^\"\\\\]|\\\\.)*)\"".r.findAllIn(_))
    .map(_.replaceAll("\\$\\{[^}]*\\}", ""))
}
