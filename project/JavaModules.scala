/** The module access that Spark needs on JDK 17+, as in its own launcher. */
object JavaModules {
  private val opened = Seq(
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar"
  )

  val flags: Seq[String] = opened.map(p => s"--add-opens=java.base/$p=ALL-UNNAMED") :+
    "-Djdk.reflect.useDirectMethodHandle=false"
}
