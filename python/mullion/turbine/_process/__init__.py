"""``process`` and callbacks: their windows, the worker that runs them, and the analysis of their code."""
