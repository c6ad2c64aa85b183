package org.apache.spark.sql.mullion.state.header

import org.json4s._
import org.json4s.jackson.JsonMethods

/** A header as JSON, from the fields of its case class, in exactly the form of json4s.
  *
  * json4s reads the Scala compiler's signature of a class to find its fields. Parsing it takes one to three seconds of
  * CPU time per process, in the first batch of a query.
  */
private[header] object HeaderJson {

  def text(header: AnyRef): String = JsonMethods.pretty(JsonMethods.render(of(header)))

  private def of(value: Any): JValue = value match {
    case text: String      => JString(text)
    case number: Int       => JInt(number)
    case number: Long      => JLong(number)
    case truth: Boolean    => JBool(truth)
    case option: Option[_] => option.fold[JValue](JNothing)(of)
    case list: Seq[_]      => JArray(list.map(of).toList)
    case map: Map[_, _]    => JObject(map.toList.map { case (name, each) => JField(name.toString, of(each)) })
    case fields: Product   =>
      JObject(
        fields.productElementNames.zip(fields.productIterator).map { case (name, each) => name -> of(each) }.toList
      )
    case other =>
      throw new IllegalStateException(s"A header has a ${other.getClass.getName}, which JSON cannot represent")
  }
}
