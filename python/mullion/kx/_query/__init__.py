"""The query of a pipeline: its sources, sinks, windows, and the worker of its functions."""
