package dev.mullion.windows

/** When a pane fires and closes, and what becomes of late rows: [[PaneRules]] for each kind of window, with what a user
  * chose beside it ([[EarlyFiring]], [[Refinements]], [[LatePolicy]]). Each rule is one of the pane contract.
  */
package object rules
