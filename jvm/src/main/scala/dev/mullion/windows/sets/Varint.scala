package dev.mullion.windows.sets

import java.nio.ByteBuffer

/** Whole numbers in as many bytes as they need (zigzag LEB128, as protocol buffers write `sint64`). */
private[windows] object Varint {

  def putSigned(buffer: ByteBuffer, value: Long): Unit = {
    var rest = (value << 1) ^ (value >> 63)
    while ((rest & ~0x7fL) != 0) {
      buffer.put(((rest & 0x7f) | 0x80).toByte)
      rest >>>= 7
    }
    buffer.put(rest.toByte)
  }

  def getSigned(buffer: ByteBuffer): Long = {
    var result = 0L
    var shift = 0
    var byte = buffer.get()
    while ((byte & 0x80) != 0) {
      result |= (byte & 0x7fL) << shift
      shift += 7
      byte = buffer.get()
    }
    result |= (byte & 0x7fL) << shift
    (result >>> 1) ^ -(result & 1)
  }
}
