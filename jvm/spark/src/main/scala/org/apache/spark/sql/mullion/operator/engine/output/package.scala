package org.apache.spark.sql.mullion.operator.engine

/** Output: firings and late rows as output rows ([[PaneOutput]]), and names of panes in errors ([[PaneNames]]).
  *
  * The kinds of firing and the columns `window` and `pane` are public.
  */
package object output
