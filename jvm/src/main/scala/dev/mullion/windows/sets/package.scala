package dev.mullion.windows

/** Which slices or ranges of a key have rows, in few bytes ([[SliceSet]], [[KeptRanges]]), and how numbers of records
  * are written ([[Varint]]). What is written here is in checkpoints: a change needs a new format in the state's header.
  */
package object sets
