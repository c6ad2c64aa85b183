package org.apache.spark.sql.mullion.shim

import java.io.{DataInputStream, InputStream}

import scala.annotation.tailrec
import scala.collection.mutable

/** A reference in a class file to a class or its member.
  *
  * @param member
  *   name and descriptor in the JVM's form, such as `copy(I)Z`; none for the class itself
  */
private[mullion] final case class Reference(owner: String, member: Option[String]) {
  override def toString: String = (owner +: member.toSeq).mkString(".")
}

/** The references of a class file, from its constant pool: everything that the JVM looks up when its code runs.
  *
  * Parsed here, because Spark guarantees no library for class files.
  */
private[mullion] object ClassReferences {
  private val Magic = 0xcafebabe

  def of(file: InputStream): Seq[Reference] = {
    val in = new DataInputStream(file)
    require(in.readInt() == Magic, "no class file")
    in.skipNBytes(4)
    new ConstantPool(in).references
  }

  private final class ConstantPool(in: DataInputStream) {
    private val texts = mutable.Map.empty[Int, String]
    private val classes = mutable.Map.empty[Int, Int]
    private val signatures = mutable.Map.empty[Int, (Int, Int)]
    private val members = mutable.ArrayBuffer.empty[(Int, Int)]
    read(1, in.readUnsignedShort())

    // Arrays are the JVM's own, and their element classes have entries too.
    def references: Seq[Reference] =
      (classes.keys.toSeq.map(entry => Reference(className(entry), None)) ++
        members.map { case (owner, signature) =>
          val (name, descriptor) = signatures(signature)
          Reference(className(owner), Some(texts(name) + texts(descriptor)))
        }).filterNot(_.owner.startsWith("["))

    private def className(entry: Int) = texts(classes(entry)).replace('/', '.')

    @tailrec private def read(entry: Int, size: Int): Unit = if (entry < size) {
      // An 8-byte number takes two entries.
      val wide = in.readUnsignedByte() match {
        case 1                => texts(entry) = in.readUTF(); false
        case 3 | 4            => in.skipNBytes(4); false
        case 5 | 6            => in.skipNBytes(8); true
        case 7                => classes(entry) = in.readUnsignedShort(); false
        case 9 | 10 | 11      => members += in.readUnsignedShort() -> in.readUnsignedShort(); false
        case 12               => signatures(entry) = in.readUnsignedShort() -> in.readUnsignedShort(); false
        case 8 | 16 | 19 | 20 => in.skipNBytes(2); false
        case 15               => in.skipNBytes(3); false
        case 17 | 18          => in.skipNBytes(4); false
        case tag              => throw new IllegalArgumentException(s"a class file with an entry of kind $tag")
      }
      read(entry + (if (wide) 2 else 1), size)
    }
  }
}
