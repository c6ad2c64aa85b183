package org.apache.spark.sql.mullion.shim

import scala.util.Using
import scala.util.control.Exception.catching

import dev.mullion.MullionSuite

class SparkLinksSuite extends MullionSuite {

  test("all that the JAR calls is in the Spark that it is tested with") {
    assertEquals(SparkLinks.missing(), Some(Nil))
  }

  test("members are looked up by name and descriptor, in all that a class extends, and constructors in it alone") {
    val context = "org.apache.spark.SparkContext"
    val operator = "org.apache.spark.sql.mullion.operator.WindowExec"
    val there = Seq(
      Reference(context, None),
      Reference(context, Some("version()Ljava/lang/String;")),
      Reference(context, Some("<init>()V")),
      Reference(operator, Some("hashCode()I")),
      Reference(operator, Some("sparkContext()Lorg/apache/spark/SparkContext;")),
      Reference("org.apache.spark.sql.catalyst.expressions.Expression", Some("getClass()Ljava/lang/Class;"))
    )
    assertEquals(SparkLinks.missing(there), Nil)
    val gone = Seq(
      Reference("org.apache.spark.NoSuch", None),
      Reference(context, Some("<init>(I)V")),
      Reference(context, Some("version()I"))
    )
    assertEquals(SparkLinks.missing(there ++ gone), gone.map(_.toString))
  }

  test("a member is looked up alone in a class that has others with types that are not there") {
    val owner = classOf[OfAbsentTypes].getName
    val without = new LoaderWithout(classOf[Absent].getName, owner)
    assert(catching(classOf[NoClassDefFoundError]).opt(without.loadClass(owner).getDeclaredMethods).isEmpty)
    val there = Seq("<init>(I)V", "number()I", "hashCode()I", "notify()V").map(of => Reference(owner, Some(of)))
    assertEquals(SparkLinks.missing(Reference(owner, None) +: there, without), Nil)
    val absent = classOf[Absent].descriptorString
    val gone = Seq("<init>()V", s"asks($absent)I", "number()J", "numbers()I").map(of => Reference(owner, Some(of)))
    assertEquals(SparkLinks.missing(there ++ gone, without), gone.map(_.toString))
    // With all types present everything is.
    assertEquals(SparkLinks.missing(there :+ Reference(owner, Some(s"asks($absent)I"))), Nil)
  }

  test("the APIs of the web UI and of the metrics system may be missing") {
    val names = Seq("operator.WindowExec", "monitor.OperatorSource", "monitor.ui.WindowsTab")
    assertEquals(
      names.map(name => SparkLinks.isChecked(s"org.apache.spark.sql.mullion.$name")),
      Seq(true, false, false)
    )
  }

  test("a class file lists the members that it calls") {
    val file = getClass.getResourceAsStream("/org/apache/spark/sql/mullion/shim/Classic$.class")
    val references = ClassReferences.of(file)
    val frame = "org.apache.spark.sql.classic.Dataset"
    assert(references.contains(Reference(frame, None)))
    assert(references.contains(Reference(frame, Some(s"toDF()L${frame.replace('.', '/')};"))))
  }
}

class Absent

class OfAbsentTypes(val number: Int) {
  def asks(absent: Absent): Int = absent.hashCode
}

/** Lacks the class of one name, and defines the class of another name itself. */
private class LoaderWithout(absent: String, own: String) extends ClassLoader(classOf[Absent].getClassLoader) {

  override def loadClass(name: String, resolve: Boolean): Class[_] =
    if (name == absent) throw new ClassNotFoundException(name)
    else if (name == own) Option(findLoadedClass(name)).getOrElse(defined(name))
    else super.loadClass(name, resolve)

  private def defined(name: String): Class[_] =
    Using.resource(getResourceAsStream(name.replace('.', '/') + ".class")) { file =>
      val bytes = file.readAllBytes()
      defineClass(name, bytes, 0, bytes.length)
    }
}

class LateJarSuite extends MullionSuite {

  test("a class loader that has this JAR sees it, and one that has not, or has another copy, does not") {
    val ours = classOf[Reference]
    assert(LateJar.sees(ours.getClassLoader, ours))
    assert(!LateJar.sees(ClassLoader.getPlatformClassLoader, ours))
    LateJar.check()
  }
}

class DistributionSuite extends MullionSuite {
  private def of(version: String, environment: Map[String, String] = Map.empty, conf: Map[String, String] = Map.empty) =
    Distribution.of(version, environment.get, conf.get)

  private val runtime = Map("DATABRICKS_RUNTIME_VERSION" -> "18.1")

  test("Apache's own Spark is not looked through") {
    assertEquals(of("4.2.1"), None)
    assertEquals(of("4.1.0-vendor-1"), Some(Distribution("Spark 4.1.0-vendor-1", photon = false)))
  }

  test("a Databricks runtime is named, with Photon") {
    val tag = "spark.databricks.clusterUsageTags.sparkVersion"
    val name = "Databricks Runtime 18.1 (Spark 4.1.0)"
    assertEquals(of("4.1.0", runtime, Map(tag -> "18.1.x-scala2.13")), Some(Distribution(name, photon = false)))
    assertEquals(of("4.1.0", runtime, Map(tag -> "18.1.x-photon-scala2.13")), Some(Distribution(name, photon = true)))
  }

  test("a runtime without an API is rejected with its name, the API and the workaround") {
    val distribution = Distribution("Databricks Runtime 18.1 (Spark 4.1.0)", photon = false)
    assertEquals(Distribution.refusal(distribution, "4.1", Some(Nil)), None)
    val lacking = Distribution.refusal(distribution, "4.1", Some(Seq("a.B.c()V", "a.B.d()V"))).get
    assertEquals(lacking.condition, "UNSUPPORTED")
    Seq(distribution.name, "lacks 2", "a.B.c()V", "whose notes say Spark 4.1", Distribution.Setting)
      .foreach(word => assert(lacking.getMessage.contains(word), word))
    assert(Distribution.refusal(distribution, "4.1", None).get.getMessage.contains("could not be looked up"))
    val photon = Distribution.refusal(distribution.copy(photon = true), "4.1", Some(Nil)).get
    assert(photon.getMessage.contains("without Photon"))
  }
}
