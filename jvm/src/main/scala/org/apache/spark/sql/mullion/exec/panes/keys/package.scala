package org.apache.spark.sql.mullion.exec.panes

/** Panes that are looked after key by key: which panes a key has, and when something is due of it.
  *
  * [[KeyedPanes]] is the frame of every engine that works so: a key's record ([[KeyRecord]]) is read once and written
  * once a batch, whatever rows it has ([[KeyRuns]], [[RowsAhead]]). What is due is found by timers in order of time: of
  * closes ([[DueKeys]], [[TimerChanges]]) and of early firings ([[EarlyKeys]]).
  */
package object keys
