import scala.util.matching.Regex

val line = SparkVersion.current

/** The version is written once, in the Python package; the JAR and the wheel must agree on it. */
val mullionVersion: String = {
  val source = IO.read(file("python/mullion/_version.py"))
  """__version__ = "([^"]+)"""".r.findFirstMatchIn(source).get.group(1)
}

ThisBuild / organization := "dev.mullion"
ThisBuild / version := mullionVersion
ThisBuild / scalaVersion := line.scala
ThisBuild / licenses := Seq("Apache-2.0" -> url("https://www.apache.org/licenses/LICENSE-2.0.txt"))

val common: Seq[Setting[_]] = Seq(
  // Spark contains Scala's library.
  autoScalaLibrary := false,
  scalacOptions ++= Seq(
    "-deprecation",
    "-feature",
    "-unchecked",
    "-Xlint:_,-byname-implicit",
    "-Werror",
    "-release:17"
  ),
  libraryDependencies ++= Seq(
    "org.scala-lang" % "scala-library" % line.scala % Provided,
    "org.scalameta" %% "munit" % "1.2.1" % Test,
    "org.scalameta" %% "munit-scalacheck" % "1.2.0" % Test
  ),
  Test / parallelExecution := false,
  Test / baseDirectory := (ThisBuild / baseDirectory).value
)

/** Each Spark version has its own classes, because its Scala version may differ. */
val outputs: File = file(if (line.name == SparkVersion.default) "jvm/target" else s"jvm/target/spark-${line.name}")

/** All commands on both projects: `jvm/testOnly *Suite`. The JAR of `jvm/spark` contains the classes of both. */
lazy val jvm = (project in file("jvm"))
  .aggregate(windows, spark)
  .settings(
    target := outputs / "all",
    publish / skip := true,
    publish / aggregate := false,
    publish := (spark / publish).value,
    assembly / aggregate := false,
    assembly := (spark / assembly).value
  )

/** The rules of windows. No Spark is on the class path. */
lazy val windows = (project in file("jvm/windows"))
  .disablePlugins(AssemblyPlugin)
  .settings(common)
  .settings(
    target := outputs / "windows",
    publish / skip := true
  )

lazy val spark = (project in file("jvm/spark"))
  .dependsOn(windows % "compile->compile;test->test")
  .settings(common)
  .settings(
    target := outputs,
    // One JAR, whose POM names no other artifact of Mullion.
    projectDependencies := Nil,
    Compile / packageBin / mappings ++= (windows / Compile / packageBin / mappings).value,
    Compile / packageSrc / mappings ++= (windows / Compile / packageSrc / mappings).value,
    Compile / doc / sources ++= (windows / Compile / doc / sources).value,
    name := s"mullion-spark-${line.name}",
    // Unchanged: sbt would turn 4.2 into 4-2, and --packages would not find the artifact.
    moduleName := s"mullion-spark-${line.name}",
    description := s"Windows for Spark ${line.name} Structured Streaming: the JAR of Mullion.",
    publishMavenStyle := true,
    publishTo := Some(MavenCache("mullion-repository", (ThisBuild / baseDirectory).value / ".build" / "maven")),
    Compile / doc / scalacOptions --= Seq("-Werror", "-Xlint:_,-byname-implicit"),
    Compile / resourceGenerators += Def.task {
      for (notice <- Seq("LICENSE", "NOTICE")) yield {
        val out = (Compile / resourceManaged).value / "META-INF" / notice
        IO.copyFile((ThisBuild / baseDirectory).value / notice, out)
        out
      }
    }.taskValue,
    // Without subfolders: a client of Connect contains some of the same classes again.
    Compile / unmanagedJars ++= line.jars.toSeq.flatMap(folder => Attributed.blankSeq((file(folder) * "*.jar").get())),
    Compile / unmanagedSourceDirectories ++= line.folders.map(baseDirectory.value / "src" / "main" / _),
    // The sources of all Spark versions, whichever is compiled.
    Compile / scalafmt / unmanagedSources ++= SparkVersion.supported
      .flatMap(_.folders)
      .distinct
      .flatMap(folder => (baseDirectory.value / "src" / "main" / folder ** "*.scala").get()),
    libraryDependencies ++= {
      if (line.jars.isEmpty) Seq("org.apache.spark" %% "spark-sql" % line.spark % Provided) else Nil
    },
    Compile / resourceGenerators += Def.task {
      val out = (Compile / resourceManaged).value / "dev" / "mullion" / "build.properties"
      IO.write(out, s"version=${version.value}\nspark=${line.name}\n")
      Seq(out)
    }.taskValue,
    Test / fork := true,
    // Spark caches a hundred pieces of generated code by default, fixed by the first session of the JVM: parallel
    // queries would recompile theirs in each batch.
    Test / javaOptions ++=
      Seq("-Xmx3g", "-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=128m", "-Dspark.ui.enabled=false") ++
        // A concurrent collector takes CPU time from the tests, and generated classes would trigger it often.
        Seq("-XX:+UseSerialGC", "-XX:MetaspaceSize=512m") ++
        // Small queries create short-lived garbage: with little room for it the collector runs ten times a second.
        Seq("-Xmn1g") ++
        Seq("-Dspark.sql.codegen.cache.maxEntries=2000") ++ JavaModules.flags ++
        // Borrowed rows of state are overwritten at the next call: see ExpiringPartition.
        Seq("-Dmullion.expireRows=true") ++
        // Settings of tests, as in sbt -Dmullion.heap.many=500 "jvm/testOnly *HeapSuite".
        sys.props.toSeq.collect { case (name, value) if name.startsWith("mullion.") => s"-D$name=$value" },
    assembly / assemblyOption ~= (_.withIncludeScala(false)),
    assembly / assemblyExcludedJars := (Compile / unmanagedJars).value,
    assembly / assemblyJarName := s"mullion-spark-${line.name}_2.13-${version.value}.jar"
  )
