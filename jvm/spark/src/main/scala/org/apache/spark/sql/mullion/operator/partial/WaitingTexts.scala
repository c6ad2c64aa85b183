package org.apache.spark.sql.mullion.operator.partial

import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

/** The texts of buffered rows, for generated code. They are copied one behind the other, because a row's own bytes are
  * valid until the next row only.
  */
final class WaitingTexts {
  import WaitingTexts._

  private[this] var bytes = new Array[Byte](FirstBytes)
  private[this] var end = 0

  /** Copies a text. Returns its place and its size, in one word. */
  def put(text: UTF8String): Long = {
    val size = text.numBytes
    if (end + size > bytes.length) bytes = java.util.Arrays.copyOf(bytes, Math.max(2 * bytes.length, end + size))
    Platform.copyMemory(
      text.getBaseObject,
      text.getBaseOffset,
      bytes,
      Platform.BYTE_ARRAY_OFFSET + end.toLong,
      size.toLong
    )
    val place = (end.toLong << 32) | size
    end += size
    place
  }

  /** A text, valid until [[clear]]. */
  def get(place: Long): UTF8String =
    UTF8String.fromAddress(bytes, Platform.BYTE_ARRAY_OFFSET + (place >>> 32), place.toInt)

  /** True if the rows should be added before further ones are buffered. */
  def isFull: Boolean = end >= Most

  def clear(): Unit = {
    end = 0
    if (bytes.length > 2 * Most) bytes = new Array[Byte](FirstBytes)
  }
}

private object WaitingTexts {
  private final val FirstBytes = 1 << 14
  private final val Most = 1 << 18
}
