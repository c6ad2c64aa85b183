package dev.mullion.windows

/** Clocks: a batch's two watermarks and wall clock ([[BatchClock]]), the clock of a pane ([[PaneClock]]), and the wall
  * clock as a substitute for a silent source ([[IdleClock]]).
  */
package object clock
