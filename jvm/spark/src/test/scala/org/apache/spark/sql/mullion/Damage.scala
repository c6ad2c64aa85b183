package org.apache.spark.sql.mullion

import scala.util.Random

import dev.mullion.TestSeed

/** Damaged variants of a text: cut, with other characters, or with other JSON values in it. */
object Damage {
  private val seed = TestSeed.value

  /** The number of attempts at each: few in the tests. */
  private val rounds = sys.props.get("mullion.damage.rounds").fold(1)(_.toInt)

  private val odd = "{}[]\",:0-9ae\u0000\n"

  private val values =
    Seq("null", "0", "-1", "9223372036854775807", "9223372036854775808", "1e999", "true", "\"\"", "[]", "{}")

  private val replacements =
    Seq("", "null", "7", "[]", "{}", "\"\"", "[1]", "[" * 100000, "{\"a\":" * 50000, "\u0000" * 50)

  def of(text: String): Seq[String] = replacements ++ (0 until rounds).flatMap { round =>
    val random = new Random(seed + round)
    def cut = text.take(random.nextInt(text.length))
    def changed = {
      val into = text.toCharArray
      (0 to random.nextInt(3)).foreach(_ => into(random.nextInt(into.length)) = odd(random.nextInt(odd.length)))
      new String(into)
    }
    // Replaces a JSON value.
    def other = {
      val parts = """("[^"]*"|-?\d+|true|false|null)(?=\s*[,}\]])""".r.findAllMatchIn(text).toVector
      if (parts.isEmpty) cut
      else {
        val at = parts(random.nextInt(parts.length))
        text.take(at.start) + values(random.nextInt(values.length)) + text.drop(at.end)
      }
    }
    // Removes a field.
    def without = {
      val fields = """"\w+":\s*("[^"]*"|-?\d+|true|false|null)\s*,""".r.findAllMatchIn(text).toVector
      if (fields.isEmpty) cut
      else {
        val at = fields(random.nextInt(fields.length))
        text.take(at.start) + text.drop(at.end)
      }
    }
    Seq.fill(150)(cut) ++ Seq.fill(150)(changed) ++ Seq.fill(150)(other) ++ Seq.fill(50)(without)
  }

  /** For a failure. */
  def clue: String = s"-Dmullion.damage.seed=$seed"
}
