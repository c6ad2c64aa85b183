package org.apache.spark.sql.mullion.shim

import java.lang.invoke.{MethodHandles, MethodType}
import java.lang.reflect.{Field, Modifier}
import java.net.URL
import java.nio.file.{FileSystems, Files, Path, Paths}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.{Try, Using}

import dev.mullion.MullionException

/** The APIs of Spark that this JAR calls, and those that the running Spark lacks.
  *
  * The JVM resolves a member when its caller first runs: in a task, of some batch. This class resolves all of them at
  * once, by name and descriptor. It also checks that Mullion's classes implement all abstract methods of their Spark
  * types.
  */
private[mullion] object SparkLinks {
  private val Ours =
    Seq(classOf[MullionException].getPackageName, classOf[Reference].getPackageName.stripSuffix(".shim"))
      .map(_ + ".")

  /** The missing APIs, sorted; `None` if the class files of this JAR cannot be read. */
  def missing(): Option[Seq[String]] =
    location.map(Using.resource(_)(home => missing(classFiles(home))))

  def missing(references: Iterable[Reference], loader: ClassLoader = getClass.getClassLoader): Seq[String] = {
    val resolved = new Known(loader)
    references.iterator.filterNot(resolved.has).map(_.toString).toSeq.distinct.sorted
  }

  private def missing(files: Seq[Path]): Seq[String] = {
    val references = files.iterator.flatMap(file => Using.resource(Files.newInputStream(file))(ClassReferences.of))
    val ownClasses =
      references.filter(reference => isOurs(reference.owner) || reference.owner.startsWith("org.apache.spark."))
    val unlinked = missing(ownClasses.toSet)
    if (unlinked.nonEmpty) unlinked else files.flatMap(file => unwritten(className(file))).distinct.sorted
  }

  /** Abstract methods that Spark has added to a supertype of one of Mullion's concrete classes. */
  private def unwritten(name: String): Seq[String] = {
    val loaded = Class.forName(name, false, getClass.getClassLoader)
    if (Modifier.isAbstract(loaded.getModifiers)) Nil
    else
      loaded.getMethods.toSeq
        .filter(method => Modifier.isAbstract(method.getModifiers))
        .map(method => s"$name has no ${method.getName}, which ${method.getDeclaringClass.getName} asks for")
  }

  private final class Known(loader: ClassLoader) {
    private val membersOf = mutable.Map.empty[String, Option[Set[String]]]

    def has(reference: Reference): Boolean =
      try {
        val owner = Class.forName(reference.owner, false, loader)
        reference.member.forall { member =>
          membersOf.getOrElseUpdate(reference.owner, listed(owner)).fold(isLinked(owner, member))(_.contains(member))
        }
      } catch { case _: ClassNotFoundException | _: LinkageError => false }

    /** `None` for a class with any member of a missing type: the JVM then lists none. Spark 4.3's `SparkEnv` has such a
      * method, with Protobuf types.
      */
    private def listed(found: Class[_]): Option[Set[String]] =
      try Some(all(found))
      catch { case _: NoClassDefFoundError => None }

    /** True if the JVM finds one method or constructor, regardless of the other members. */
    private def isLinked(owner: Class[_], member: String): Boolean = {
      val (name, types) = member.span(_ != '(')
      val lookup = MethodHandles.privateLookupIn(owner, MethodHandles.lookup())
      def kind = MethodType.fromMethodDescriptorString(types, owner.getClassLoader)
      if (types.isEmpty) lineage(owner).flatMap(_.getDeclaredFields).exists(named(_) == member)
      else if (name == "<init>") Try(lookup.findConstructor(owner, kind)).isSuccess
      else Try(lookup.findVirtual(owner, name, kind)).orElse(Try(lookup.findStatic(owner, name, kind))).isSuccess
    }

    /** The members of a class and its supertypes, and its own constructors. */
    private def all(found: Class[_]): Set[String] = {
      val methods = lineage(found).flatMap(_.getDeclaredMethods).map { method =>
        method.getName + descriptor(method.getReturnType, method.getParameterTypes.toSeq)
      }
      val fields = lineage(found).flatMap(_.getDeclaredFields).map(named)
      val constructors = found.getDeclaredConstructors.toSeq.map { constructor =>
        "<init>" + descriptor(Void.TYPE, constructor.getParameterTypes.toSeq)
      }
      (methods ++ fields ++ constructors).toSet
    }

    private def named(field: Field) = field.getName + field.getType.descriptorString

    private def lineage(found: Class[_]): Seq[Class[_]] = {
      val above = Option(found.getSuperclass).toSeq ++ found.getInterfaces
      // An interface has the methods of Object.
      val objects = if (found.isInterface) Seq(classOf[Object]) else Nil
      (found +: (above.flatMap(lineage) ++ objects)).distinct
    }
  }

  private def descriptor(gives: Class[_], takes: Seq[Class[_]]): String =
    MethodType.methodType(gives, takes.toArray[Class[_]]).toMethodDescriptorString

  private def isOurs(name: String): Boolean = Ours.exists(name.startsWith)

  /** True if a class of this JAR cannot work without the APIs that it calls. Reports are optional: where an API of the
    * web UI or the metrics system is missing, `WindowReport` catches the error, and queries run without reports.
    */
  private[shim] def isChecked(name: String): Boolean = isOurs(name) && !name.startsWith(Ours.last + "monitor.")

  /** The folder or the JAR of this class. */
  private def location: Option[Home] =
    for {
      domain <- Option(getClass.getProtectionDomain)
      source <- Option(domain.getCodeSource)
      url <- Option(source.getLocation)
      home <- opened(url)
    } yield home

  private def opened(url: URL): Option[Home] =
    if (url.getProtocol != "file") None
    else {
      val path = Paths.get(url.toURI)
      if (Files.isDirectory(path)) Some(new Home(path, () => ()))
      else if (!Files.isReadable(path)) None
      else {
        val jar = FileSystems.newFileSystem(path)
        Some(new Home(jar.getPath("/"), () => jar.close()))
      }
    }

  private final class Home(val root: Path, whenClosed: () => Unit) extends AutoCloseable {
    override def close(): Unit = whenClosed()
  }

  private def classFiles(home: Home): Seq[Path] =
    Using.resource(Files.walk(home.root)) { files =>
      files.iterator.asScala
        .filter(file => file.toString.endsWith(".class"))
        .map(file => home.root.relativize(file) -> file)
        .collect { case (name, file) if isChecked(name.toString.replace('/', '.')) => file }
        .toVector
    }

  private def className(file: Path): String = {
    val name = file.toString.stripSuffix(".class").replace('/', '.')
    name.substring(Ours.map(name.indexOf(_)).filter(_ >= 0).min)
  }
}
