package dev.mullion.windows

/** What is known of the panes of one key between batches: which are open, which have fired, how many rows they have,
  * which sessions merge. Engines hold the accumulators; these hold the decisions. What they write is in checkpoints.
  */
package object key
