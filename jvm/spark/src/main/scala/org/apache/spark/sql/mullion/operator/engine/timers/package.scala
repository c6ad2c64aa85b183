package org.apache.spark.sql.mullion.operator.engine

/** Panes that are processed key by key: the panes of a key, and their due times.
  *
  * [[KeyedPanes]] is the base of all such engines: a key's record ([[KeyRecord]]) is read once and written once per
  * batch ([[KeyRuns]], [[PrefetchedRows]]). Timers in order of time find due keys: for closes ([[DueKeys]],
  * [[TimerChanges]]) and for early firings ([[EarlyKeys]]).
  */
package object timers
