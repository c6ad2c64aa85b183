package dev.mullion.windows

/** Windows: [[WindowSpec]] and its kinds, lengths of time, and the slices that overlapping windows share
  * ([[SliceGrid]]). Arithmetic saturates at the ends of time ([[TimeMath]]). All values are immutable and validated at
  * construction.
  */
package object spec
