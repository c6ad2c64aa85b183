"""``faust.types.streams``: see :mod:`mullion.faust.types`."""

from mullion.faust.types import *  # noqa: F403
