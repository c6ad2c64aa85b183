package dev.mullion.windows.spec

/** The language of a request. It decides how messages spell options. */
sealed abstract class Language extends Product with Serializable {

  /** Runs `body` on behalf of a request in this language. */
  def apply[A](body: => A): A = {
    val before = Language.ofThread.get
    Language.ofThread.set(this)
    try body
    finally Language.ofThread.set(before)
  }
}

object Language {
  case object Python extends Language
  case object Scala extends Language
  case object Sql extends Language

  private val ofThread: ThreadLocal[Language] = ThreadLocal.withInitial(() => Scala)

  /** The language of the request that this thread works on. */
  def current: Language = ofThread.get
}
