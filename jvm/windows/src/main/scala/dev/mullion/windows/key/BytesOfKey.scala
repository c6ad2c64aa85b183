package dev.mullion.windows.key

import java.nio.ByteBuffer

/** The encoding of a key's state: its own clock first, if it has one, then the part of the kind of window. */
private[key] object BytesOfKey {
  // The maximum size of `KeyClock.put`.
  private val ofClock = 16

  /** @param atMost
    *   the maximum number of bytes that `put` writes
    */
  def apply(clock: KeyClock, atMost: Int)(put: ByteBuffer => Unit): Array[Byte] = {
    val buffer = ByteBuffer.allocate(ofClock + atMost)
    clock.put(buffer)
    put(buffer)
    java.util.Arrays.copyOf(buffer.array, buffer.position())
  }

  /** The bytes after the clock, which is restored from its bytes. */
  def behind(clock: KeyClock, bytes: Array[Byte]): ByteBuffer = {
    val buffer = ByteBuffer.wrap(bytes)
    clock.take(buffer)
    buffer
  }

  /** Writes bytes after their length, which takes four bytes. */
  def putPart(buffer: ByteBuffer, part: Array[Byte]): Unit = {
    buffer.putInt(part.length).put(part)
    ()
  }

  def takePart(buffer: ByteBuffer): Array[Byte] = {
    val part = new Array[Byte](buffer.getInt)
    buffer.get(part)
    part
  }
}
