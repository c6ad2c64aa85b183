package dev.mullion.windows

/** Firing, closing and late rows: [[PaneRules]] for each kind of window, with the options of the user ([[EarlyFiring]],
  * [[Refinements]], [[LatePolicy]]). Each rule implements one of the pane contract.
  */
package object rules
