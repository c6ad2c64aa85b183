package org.apache.spark.sql.mullion.state.memory

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** How records that change in memory come to be written: noted as they change, and drained in order once a batch is
  * done.
  *
  * {{{
  *   changes, goes    what is written of a record is taken from its place, or is to be written over
  *   drain            what is not written  ->  its place         of all that is to leave memory: what does not lie alone
  * }}}
  */
private[state] final class WriteBack(places: WriteBack.Places) {
  private val overwrites = places.overwrites
  private val room = ToldKeys.room()

  /** Notes that a record has another value now. */
  def changes(leaf: Leaf, at: Int): Unit =
    if (overwrites && leaf.place(at).isAlone) leaf.place(at, Place.Changed)
    else {
      goes(leaf, at)
      leaf.place(at, Place.Unwritten)
    }

  /** Notes that a record is not in its place any more. */
  def goes(leaf: Leaf, at: Int): Unit = {
    val place = leaf.place(at)
    if (place.isInSegment) places.remove(place)
    else if (place.isAlone) {
      leaf.keyTo(at, places.key, room)
      places.removeAlone()
    }
  }

  /** True if any record is not written. */
  def isDue(leaves: Leaves): Boolean = {
    var l = 0
    while (l < leaves.count && !leaves(l).isDirty) l += 1
    l < leaves.count
  }

  /** Writes records in order.
    *
    * @param leaving
    *   whether they leave memory: all is written then that does not lie alone, and not what has changed only; leaves
    *   that a version has too stay as they are
    */
  def drain(leaves: Leaves, leaving: Boolean): Unit = {
    var l = 0
    while (l < leaves.count) {
      val leaf = leaves(l)
      if (leaving || leaf.isDirty) {
        var i = 0
        while (i < leaf.size) {
          val place = leaf.place(i)
          if (place.isToWrite || (leaving && place.isInSegment)) {
            leaf.keyTo(i, places.key, room)
            leaf.valueTo(i, places.value)
            val written = places.write()
            if (!leaving) leaf.written(i, written)
          }
          i += 1
        }
        if (!leaving) leaf.isDirty = false
      }
      l += 1
    }
  }
}

private[state] object WriteBack {

  /** Where the records of one kind are written. */
  trait Places {

    /** True if a record that lies alone and changes is written over. */
    def overwrites: Boolean

    /** Notes that a record is removed from its place, or is to be written anew. */
    def remove(place: Place): Unit

    /** Removes the record under its own key on which `key` stands: it is gone, or is to be written elsewhere. */
    def removeAlone(): Unit

    /** The rows that stand on the record that is to be written. */
    def key: UnsafeRow
    def value: UnsafeRow

    /** Writes the record; its place. */
    def write(): Place
  }

  /** Of records that are written nowhere. */
  val none: WriteBack = new WriteBack(new Places {
    override def overwrites: Boolean = false
    override val key: UnsafeRow = new UnsafeRow(0)
    override val value: UnsafeRow = new UnsafeRow(0)
    override def remove(place: Place): Unit = nowhere
    override def removeAlone(): Unit = nowhere
    override def write(): Place = nowhere

    private def nowhere = throw new IllegalStateException("records are written nowhere")
  })
}
