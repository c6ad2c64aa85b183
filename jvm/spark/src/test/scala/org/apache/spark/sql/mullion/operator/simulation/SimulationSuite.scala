package org.apache.spark.sql.mullion.operator.simulation

import org.apache.spark.sql.mullion.state.rocksdb.SimulatedState

import dev.mullion.{MullionSuite, TestSeed}

/** A few seconds of the simulation. `make simulation` runs more, or a failed seed again. */
class SimulationSuite extends MullionSuite {
  if (SimulatedState.hasRocksDb)
    test("after failures and repeated tasks, each batch emits the rows of the contract and state is empty at the end") {
      val seed = TestSeed.value
      val before = SimulatedState.bytesInMemory
      val figures = Simulation.run(seed, 1500)
      assertEquals(SimulatedState.bytesInMemory, before, s"bytes that records still hold, seed $seed")
      assertEquals(figures.cases, 1500L)
      assert(clue(figures).firings > 20000)
      Seq(figures.restarts, figures.killed, figures.twice, figures.executors).foreach(n => assert(n > 50))
    }
}
