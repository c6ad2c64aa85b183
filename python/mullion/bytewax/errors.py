"""The error of a run, as in ``bytewax.errors``."""

from mullion.errors import MullionError as BytewaxRuntimeError

__all__ = ["BytewaxRuntimeError"]
