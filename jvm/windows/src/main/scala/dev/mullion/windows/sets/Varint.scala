package dev.mullion.windows.sets

import java.nio.ByteBuffer

/** Variable-length integers (zigzag LEB128, the encoding of `sint64` in protocol buffers). */
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
    signed(result)
  }

  private def signed(zigzag: Long): Long = (zigzag >>> 1) ^ -(zigzag & 1)

  /** Reads the numbers of an array in order. */
  final class Numbers(bytes: Array[Byte]) {
    private var at = 0

    def hasMore: Boolean = at < bytes.length

    def next(): Long = {
      var result = 0L
      var shift = 0
      while (bytes(at) < 0) {
        result |= (bytes(at) & 0x7fL) << shift
        shift += 7
        at += 1
      }
      result |= bytes(at).toLong << shift
      at += 1
      signed(result)
    }
  }
}
