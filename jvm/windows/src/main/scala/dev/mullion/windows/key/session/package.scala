package dev.mullion.windows.key

/** The sessions of one key.
  * {{{
  *   OpenSessions      the open sessions of a key, and their merging
  *   OrderedSessions   those whose bounds depend on the order of rows
  *
  *   SessionsOfKey     for rows that are processed one by one: MergingSessionsOfKey, OrderedSessionsOfKey
  * }}}
  */
package object session
