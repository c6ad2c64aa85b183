package dev.mullion.windows

/** Clocks: a batch's two watermarks and wall clock ([[BatchClock]]), the clock of a pane ([[PaneClock]]), the clocks of
  * several streams ([[StreamClock]]), and the wall clock as a substitute for idle ones ([[IdleClock]]).
  */
package object clock
