package org.apache.spark.sql.mullion.state.btree

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** The writing of changed records: changes are recorded, and written in order at the end of a batch.
  *
  * {{{
  *   changes, goes    the written form of a record is removed from its place, or will be overwritten
  *   drain            unwritten records  ->  their places        if all leave memory: except records under their own keys
  * }}}
  */
private[state] final class WriteBack(places: WriteBack.Places) {
  private val overwrites = places.overwrites
  private val room = ImplicitKeys.room()

  /** Records that a record has a new value. */
  def changes(leaf: Leaf, at: Int): Unit =
    if (overwrites && leaf.place(at).isAlone) leaf.place(at, Place.Changed)
    else {
      goes(leaf, at)
      leaf.place(at, Place.Unwritten)
    }

  /** Records that a record has left its place. */
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
    *   whether they leave memory: then all are written except those under their own keys, not only changed ones; leaves
    *   shared with a version stay unchanged
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

  /** The places of the records of one kind. */
  trait Places {

    /** True if a changed record under its own key is overwritten. */
    def overwrites: Boolean

    /** Records that a record is removed from its place, or will be written again. */
    def remove(place: Place): Unit

    /** Removes the record under its own key, `key`: it is deleted, or will be written elsewhere. */
    def removeAlone(): Unit

    /** The rows that point to the record to write. */
    def key: UnsafeRow
    def value: UnsafeRow

    /** Writes the record. Returns its place. */
    def write(): Place
  }

  /** For records that are never written. */
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
