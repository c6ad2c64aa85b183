"""The parts that benchmarks share: workloads and their rows, sessions, measured processes, goals and reports."""
