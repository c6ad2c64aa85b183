/** What Spark needs opened on JDK 17+, as its own launcher does. */
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
