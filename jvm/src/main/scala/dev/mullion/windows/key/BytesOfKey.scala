package dev.mullion.windows.key

import java.nio.ByteBuffer

/** How what is known of a key is written, where the key may have a clock of its own: the clock first, then what the
  * kind of window knows.
  */
private[key] object BytesOfKey {
  // What `KeyClock.put` writes, at most.
  private val ofClock = 16

  /** @param atMost
    *   how many bytes `put` writes, at most
    */
  def apply(clock: KeyClock, atMost: Int)(put: ByteBuffer => Unit): Array[Byte] = {
    val buffer = ByteBuffer.allocate(ofClock + atMost)
    clock.put(buffer)
    put(buffer)
    java.util.Arrays.copyOf(buffer.array, buffer.position())
  }

  /** The bytes behind the clock's, which is put where it was. */
  def behind(clock: KeyClock, bytes: Array[Byte]): ByteBuffer = {
    val buffer = ByteBuffer.wrap(bytes)
    clock.take(buffer)
    buffer
  }

  /** Writes bytes behind the number of them, which takes four more. */
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
