package dev.mullion

/** Which panes a row enters, when a pane fires and closes, and why: pure functions and small values over `Long`s,
  * tested without Spark in microseconds. Times are microseconds since 1970, or row numbers.
  * {{{
  *   spec     what a window is, and its arithmetic
  *   clock    what time it is in a batch
  *   sets     slices and ranges of a key, and how numbers are written
  *   rules    when a pane fires, closes, and takes late rows
  *   key      what is known of the panes of one key
  * }}}
  * A rule of the pane contract is changed here, and nowhere else; it has a story in `tests/transcripts`.
  */
package object windows
