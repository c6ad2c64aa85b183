package org.apache.spark.sql.mullion.operator.engine.rowwise

import java.nio.ByteBuffer

import org.apache.spark.sql.mullion.operator.engine.timers.ActiveKey

/** The wall clock of a key's last rows, and the due time of the timer that forgets the key. In microseconds.
  *
  * {{{
  *   rows         x   x         x
  *   timer        |-------------|>------------|            due: renewed, because there were rows since it was set
  *                                            |>----|      due again: the key is forgotten
  * }}}
  *
  * A batch with rows of a key therefore writes no timer. The record of the key ends with these two times.
  */
private[engine] final class KeyLifetime(var lastRows: Long, var timer: Long) {

  /** Appends it to the panes of the key. */
  def after(panes: Array[Byte]): Array[Byte] =
    ByteBuffer.allocate(panes.length + KeyLifetime.Bytes).put(panes).putLong(lastRows).putLong(timer).array
}

private[engine] object KeyLifetime {
  private val Bytes = 16

  /** Of a key without a record. */
  def begin(wall: Long): KeyLifetime = new KeyLifetime(wall, ActiveKey.NoTimer)

  /** The panes of a key, and its lifetime. */
  def read(record: Array[Byte]): (Array[Byte], KeyLifetime) = {
    val panes = java.util.Arrays.copyOf(record, record.length - Bytes)
    val times = ByteBuffer.wrap(record, panes.length, Bytes)
    (panes, new KeyLifetime(times.getLong, times.getLong))
  }
}
