"""The log of inputs: sources are read into it, and Spark reads it."""
