package dev.mullion.windows.spec

import munit.Assertions.{assert, clue}

/** The spellings of options by which a text shows the language that it is for. */
object Spelling {
  val languages: Seq[Language] = Seq(Language.Python, Language.Scala, Language.Sql)

  private val names =
    "allowed_lateness|on_time|at_end|dedupe_by|each_row|idle_after|max_ahead|late_by|wall_time|new_aggregates|" +
      "max_rows|early|late|empty|accumulate|ids|time|by|clock|upgrade|every|wall|count|order|panes|was|" +
      "max_length|ends_with|timeout|forget_after"

  private val scalaNames = names.split('|').map { name =>
    val words = name.split('_')
    (words.head +: words.tail.map(_.capitalize)).mkString
  } ++ Seq("closeAtEnd", "byTime")

  private val marks: Map[Language, Seq[String]] = Map(
    Language.Python -> Seq(s"\\b($names)=(?!=)", "\\b(F|mullion)\\.\\w+\\(", "\\b(True|False|None)\\b"),
    Language.Scala -> Seq(
      s"\\b(${scalaNames.mkString("|")}) = ",
      "\\bSeq\\(|\\bcol\\(\"",
      s"\\b(${scalaNames.filter(_.exists(_.isUpper)).mkString("|")})\\b"
    ),
    Language.Sql -> Seq("\\b\\w+ => ", "\\bearly_(each_row|count|wall)\\b")
  )

  /** The first spelling of `language` in a text. */
  def of(language: Language, text: String): Option[String] =
    marks(language).iterator.flatMap(_.r.findFirstIn(text)).nextOption()

  /** Fails if a text for `language` spells an option as another language does. */
  def check(language: Language, text: String): Unit = languages.filter(_ != language).foreach { other =>
    assert(of(other, clue(text)).isEmpty, s"a message for $language has the spelling of $other: ${of(other, text).get}")
  }
}
