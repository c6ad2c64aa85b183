package dev.mullion

/** The panes of a row, and the times at which panes fire and close, as pure functions over `Long`s. Tests run without
  * Spark in microseconds. Times are microseconds since 1970, or row numbers.
  * {{{
  *   spec     windows, and their arithmetic
  *   clock    the clocks of a batch
  *   sets     slices and ranges of a key, counts of ends, and their encoding
  *   rules    firing, closing, and late rows
  *   key      the panes of one key
  * }}}
  * All rules of the pane contract are implemented here; each has a test case in `tests/transcripts`.
  */
package object windows
