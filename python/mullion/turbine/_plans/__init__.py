"""From a subscription to a streaming query: a plan for each way that one can run."""
