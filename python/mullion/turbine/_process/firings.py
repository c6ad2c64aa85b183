"""The callbacks of a query's windows in a worker, for the panes that fired in a tick."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

import pyarrow as pa
import pyarrow.compute as pc

from mullion._keyed.stage import Firings
from mullion._keyed.state import State
from mullion.topics._outputs import Output
from mullion.turbine._process.callbacks import CLOSE, EARLY, Count, Outputs, PaneCallbacks, key_column
from mullion.turbine._process.dynamic_windows import FromData, Maker, by_window
from mullion.turbine._process.subscription import topic_of
from mullion.turbine.state import NoState, state_of

WINDOW: Final = "window_name"
"""The column of the windows' names in the output of an operator of several windows."""


@final
@dataclass(frozen=True)
class CallbacksOfMade:
    """The callbacks of windows that were made from data, from ``on_recover``.

    - ``integers``: for each shape, the columns that are sums of integers.
    - ``topics``: the topics of the callbacks' results.
    """

    from_data: FromData
    integers: dict[str, frozenset[str]]
    topics: Mapping[str, str]

    def of(self, maker: Maker, shape: str, name: str) -> PaneCallbacks:
        """The callbacks of one window."""
        spec = maker.recovered(name).spec
        return PaneCallbacks.of(spec, self.integers[shape], lambda kind: topic_of(self.topics, kind, name))


@final
@dataclass(frozen=True)
class WindowInQuery:
    """One window of a query without state: its callbacks, and where its panes are in the operator's output.

    - ``name``: its name in the column ``window_name``; ``None`` if it is the only window.
    - ``columns``: the operator's columns by their names in a query of one window.
    """

    callbacks: PaneCallbacks
    name: str | None = None
    columns: Mapping[str, str] | None = None

    def panes_in(self, output: pa.Table) -> pa.Table:
        """The panes of the window in the operator's output."""
        if self.name is not None:
            output = output.filter(pc.equal(output[WINDOW], self.name))
        if self.columns is None:
            return output
        return pa.table({"window": output["window"], **{name: output[own] for name, own in self.columns.items()}})


@final
@dataclass(frozen=True)
class CallbacksOfWindows:
    """The callbacks of a query without state."""

    windows: Sequence[WindowInQuery]
    on_error: str
    dead_letter: str | None
    count: Count

    @property
    def __name__(self) -> str:
        """The functions in plans, and in the error of a worker that ends."""
        return " or ".join(each.callbacks.name for each in self.windows)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Output]:
        """The outputs for panes of a shard that fired in a tick, early firings first."""
        fired = [batch for batch in batches if batch.num_rows]
        if not fired:
            return
        panes = pa.Table.from_batches(fired)
        outputs = Outputs(self.on_error, self.dead_letter, self.count)
        firings = pc.struct_field(panes["pane"].combine_chunks(), "firing")
        for kind in (EARLY, CLOSE):
            output = panes.filter(pc.equal(firings, kind))
            for window in self.windows if output.num_rows else ():
                window.callbacks.fire(kind, window.panes_in(output), NoState(), outputs)
        yield from outputs


@final
@dataclass(frozen=True)
class CallbacksOfShard:
    """The callbacks of all windows of a shard with state. They run after ``process``, on the same state."""

    on_error: str
    dead_letter: str | None
    count: Count
    windows: dict[str, PaneCallbacks]
    of_new: CallbacksOfMade | None = None

    @property
    def __name__(self) -> str:
        """The functions in plans, and in the error of a worker that ends."""
        return " or ".join(each.name for each in self.windows.values()) or "callbacks"

    def __call__(self, firings: Iterator[Firings], records: State) -> Iterator[pa.RecordBatch]:
        """Rows :data:`mullion.topics.NOTED` for the firings of all windows, early ones first."""
        state, writes = state_of(records, self.on_error)
        outputs = Outputs(self.on_error, self.dead_letter, self.count, writes)
        of_new, recovered = self.of_new, dict[str, PaneCallbacks]()
        maker = None if of_new is None else Maker(of_new.from_data, records)

        def recover(shape: str, window: str) -> PaneCallbacks:
            assert of_new is not None
            assert maker is not None
            if window not in recovered:
                recovered[window] = of_new.of(maker, shape, window)
            return recovered[window]

        for (name, firing), run in itertools.groupby(firings, key=lambda each: (each.window, each.firing)):
            panes = pa.Table.from_batches([each.batch for each in run])
            for window, fired in self._windows(name, panes, recover):
                window.fire(firing, fired, state, outputs)
        yield from outputs.rows()

    def _windows(
        self, name: str, panes: pa.Table, recover: Callable[[str, str], PaneCallbacks]
    ) -> Iterator[tuple[PaneCallbacks, pa.Table]]:
        if name in self.windows:
            yield self.windows[name], panes
            return
        for window, fired in by_window(panes, key_column(0)):
            callbacks = recover(name, window)
            # The first key column is the window's name.
            names = {key_column(i + 1): key_column(i) for i in range(len(callbacks.key))}
            yield callbacks, fired.rename_columns([names.get(each, each) for each in fired.schema.names])
