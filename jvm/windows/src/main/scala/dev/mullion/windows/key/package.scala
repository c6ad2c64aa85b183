package dev.mullion.windows

/** The state of one key between batches: its open panes, their firings and rows. Engines hold the accumulators; these
  * classes make the decisions. Checkpoints contain their encodings.
  * {{{
  *   PaneFirings           the firings of a key's open panes, and the inputs of their next firing
  *
  *   for rows that are processed one by one, in order of arrival:
  *   PanesOfKey            the open panes of a key, and the effect of its next row on them:
  *     AlignedPanesOfKey     tumbling and sliding windows of time
  *     session               sessions
  *     CountPanesOfKey       windows of a number of rows
  *     GlobalPaneOfKey       the one window that a trigger closes, or a timeout
  *   FiringCounts          the firings of those panes
  *   ReopenedPanes         the panes that the late rows of a batch open
  *   UnsplitRows           the rows of a key that a function has not split into windows yet
  *
  *   PaneId                the identity of a session among those of its key
  * }}}
  */
package object key
