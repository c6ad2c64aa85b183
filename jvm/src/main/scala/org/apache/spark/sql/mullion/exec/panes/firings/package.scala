package org.apache.spark.sql.mullion.exec.panes

/** What comes out: a firing as a row of the output, late rows too ([[PaneOutput]]), and what errors call a pane
  * ([[PaneNames]]).
  *
  * The kinds of firing and the columns `window` and `pane` are what users read.
  */
package object firings
