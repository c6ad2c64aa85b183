package dev.mullion.windows

/** What is known of one key between batches: which panes are open, which have fired, how many rows they have. Engines
  * hold the accumulators; these hold the decisions. What they write is in checkpoints.
  * {{{
  *   OpenSessions          the open sessions of a key, and which of them merge
  *   PaneFirings           how often the open panes of a key have fired, and what decides when they fire next
  *
  *   where rows are worked on one by one, in order of arrival:
  *   PanesOfKey            the open panes of a key, and what its next row does to them:
  *     AlignedPanesOfKey     tumbling and sliding windows of time
  *     SessionsOfKey         sessions
  *     CountPanesOfKey       windows of so many rows
  *     GlobalPaneOfKey       the one window that a trigger closes
  *   FiringCounts          how often those panes have fired
  *   ReopenedPanes         the panes that the late rows of a batch open
  *   UnsplitRows           the rows of a key that a function has not split into windows yet
  *
  *   PaneId                what tells a session from every other of its key
  * }}}
  */
package object key
