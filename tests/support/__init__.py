"""The helpers of the tests, and the programs that tests start."""
