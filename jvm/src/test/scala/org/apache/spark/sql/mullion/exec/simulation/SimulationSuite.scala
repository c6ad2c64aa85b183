package org.apache.spark.sql.mullion.exec.simulation

import org.apache.spark.sql.mullion.state.store.SimulatedState

import dev.mullion.{MullionSuite, TestSeed}

/** A few seconds of the simulation. `make simulation` runs more of it, and a seed again that failed. */
class SimulationSuite extends MullionSuite {
  test(
    "whatever dies, tears or runs twice, each batch puts out what the contract says and nothing is left at the end"
  ) {
    val seed = TestSeed.value
    val before = SimulatedState.bytesInMemory
    val figures = Simulation.run(seed, 1500)
    assertEquals(SimulatedState.bytesInMemory, before, s"bytes that records still hold, seed $seed")
    assertEquals(figures.cases, 1500L)
    assert(clue(figures).firings > 20000)
    Seq(figures.restarts, figures.killed, figures.twice, figures.disks, figures.executors).foreach(n => assert(n > 50))
  }

  test("two attempts that have a key's sessions in other orders leave the same records") {
    // The life in which a task that ran twice left sums in the key's record and its twin beside it.
    assertEquals(Simulation.run(1001130517L, 1).cases, 1L)
  }
}
