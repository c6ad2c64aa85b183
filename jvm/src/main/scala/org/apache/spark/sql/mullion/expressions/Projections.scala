package org.apache.spark.sql.mullion.expressions

import java.util.{Collections, LinkedHashMap, Map => JavaMap}

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._
import org.apache.spark.util.Utils

/** Projections whose code is written once in a JVM, and not by each task.
  *
  * {{{
  *   UnsafeProjection.create   expressions - text of code - class, which is known by its text - projection
  *   this                      expressions - class, which is known by them - projection
  * }}}
  *
  * A task of a hundred rows has some of them, and to write their text took a twentieth of its batch. Each task has a
  * projection of its own, for it has a row of its own.
  *
  * Only where equal expressions are sure to have the same code: columns, literals and hashes of them. What any of these
  * refers to is never changed, and so may be shared. Other expressions may differ in what their equality does not see,
  * such as the place in a query that an error names.
  */
private[mullion] object Projections {

  /** What Spark's `UnsafeProjection.create` gives for the same. */
  def apply(expressions: Seq[Expression], input: Seq[Attribute]): UnsafeProjection =
    apply(BindReferences.bindReferences(expressions, input))

  /** @param bound
    *   expressions over columns by their places
    */
  def apply(bound: Seq[Expression]): UnsafeProjection = {
    val unnamed = bound.map(withoutName)
    if (isKnown(unnamed)) knownBy(unnamed).make() else UnsafeProjection.create(bound)
  }

  /** An expression without the names that it is given. */
  def withoutName(expression: Expression): Expression = expression match {
    case Alias(named, _) => withoutName(named)
    case other           => other
  }

  private[expressions] def isKnown(unnamed: Seq[Expression]): Boolean =
    unnamed.length <= MostColumns && unnamed.forall(isKnown) &&
      SQLConf.get.getConf(SQLConf.CODEGEN_FACTORY_MODE) != CodegenObjectFactoryMode.NO_CODEGEN.toString

  private def isKnown(expression: Expression): Boolean = expression match {
    case column: BoundReference => !column.dataType.existsRecursively(_.isInstanceOf[UserDefinedType[_]])
    case Literal(_, BooleanType | IntegerType | LongType | TimestampType | StringType) => true
    case hash: HashExpression[_] => isOfSpark(hash) && hash.children.forall(isKnown)
    // As Spark places rows.
    case place: Pmod => isPositive(place.right) && isOfSpark(place.left) && isKnown(place.left)
    case _           => false
  }

  private def isOfSpark(expression: Expression) = expression.getClass.getPackage == classOf[XxHash64].getPackage

  private def isPositive(expression: Expression) = expression match {
    case Literal(number: Int, IntegerType) => number > 0
    case _                                 => false
  }

  // More would be split into several methods, or not compile.
  private val MostColumns = 64

  private final class Known(made: GeneratedClass, references: Array[Any]) {
    def make(): UnsafeProjection = made.generate(references).asInstanceOf[UnsafeProjection]
  }

  // How many are kept. What another needs after that is written again.
  private val Most = 256

  private val known = Collections.synchronizedMap(new LinkedHashMap[Seq[Expression], Known](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JavaMap.Entry[Seq[Expression], Known]): Boolean = size > Most
  })

  private def knownBy(unnamed: Seq[Expression]): Known = {
    val found = known.get(unnamed)
    if (found ne null) found
    else {
      val made = write(unnamed)
      known.put(unnamed, made)
      made
    }
  }

  /** The class of a projection, as Spark's `GenerateUnsafeProjection` writes it. */
  private def write(unnamed: Seq[Expression]): Known = {
    val ctx = new CodegenContext
    val row = GenerateUnsafeProjection.createCode(ctx, unnamed)
    val name = "KnownProjection"
    val text =
      s"""
         |public java.lang.Object generate(Object[] references) {
         |  return new $name(references);
         |}
         |
         |class $name extends ${classOf[UnsafeProjection].getName} {
         |  private Object[] references;
         |  ${ctx.declareMutableStates()}
         |
         |  public $name(Object[] references) {
         |    this.references = references;
         |    ${ctx.initMutableStates()}
         |  }
         |
         |  public void initialize(int partitionIndex) {
         |    ${ctx.initPartition()}
         |  }
         |
         |  public java.lang.Object apply(java.lang.Object row) {
         |    return apply((InternalRow) row);
         |  }
         |
         |  public UnsafeRow apply(InternalRow ${ctx.INPUT_ROW}) {
         |    ${row.code}
         |    return ${row.value};
         |  }
         |
         |  ${ctx.declareAddedFunctions()}
         |}
         |""".stripMargin
    val code = CodeFormatter.stripOverlappingComments(new CodeAndComment(text, ctx.getPlaceHolderToComments()))
    // A session may have a class loader of its own, which this would keep. The code calls Spark's classes alone.
    val made = Utils.withContextClassLoader(Utils.getSparkClassLoader)(CodeGenerator.compile(code)._1)
    new Known(made, ctx.references.toArray)
  }
}
