"""Another document's API of Bytewax's windows, where it and Bytewax 0.21 cannot both be had: ``seed.windowing``."""
