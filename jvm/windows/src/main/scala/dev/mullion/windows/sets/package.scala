package dev.mullion.windows

/** Compact sets of a key's slices and ranges ([[SliceSet]], [[KeptRanges]]), and the encoding of numbers in records
  * ([[Varint]]). Checkpoints contain these encodings: a change needs a new format in the state's header.
  */
package object sets
