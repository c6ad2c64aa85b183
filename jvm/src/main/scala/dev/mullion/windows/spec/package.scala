package dev.mullion.windows

/** What a window is: [[WindowSpec]] and its kinds, lengths of time, and the slices that overlapping windows share
  * ([[SliceGrid]]). Arithmetic saturates at the ends of time ([[TimeMath]]). All is immutable and refused at
  * construction if it is wrong.
  */
package object spec
