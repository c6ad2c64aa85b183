package dev.mullion.windows

/** What time it is: a batch's two watermarks and wall clock ([[BatchClock]]), which of them a pane follows
  * ([[PaneClock]]), and when the wall clock stands in for a silent source ([[IdleClock]]).
  */
package object clock
