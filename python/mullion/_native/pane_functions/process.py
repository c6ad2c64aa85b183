"""``windowed(...).process(processor)``: code with state for each pane, which gets each batch's rows.

::

    window       fires each pane with the rows of the batch, and closes it
    function     with state for each pane, in the task of the pane's key: on_batch or on_row, on_close, merge

A pane is identified by its window; a session, whose window changes, by its id.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from mullion._bridge.request import quoted
from mullion._keyed.api import keyed_map
from mullion._keyed.calls import FAILURES, failed_call
from mullion._keyed.memory import MemoryStore
from mullion._keyed.results import Results, flattened
from mullion._keyed.state import State
from mullion._keyed.store import Records
from mullion._native.pane_functions.apply import Output, arrow_of, require_other_names, schema_of, takes_of
from mullion._native.pane_functions.delivery import Delivery
from mullion._native.pane_functions.pane import Pane, key_text
from mullion._native.pane_functions.reading import ROWS, Firing, Firings, Heads, Takes, in_pieces
from mullion._util.codec import objects, pickles, values
from mullion.errors import InvalidArgumentError


class PaneProcessor:
    """Code with state for each pane: the base class of processors for :meth:`mullion.Windowed.process`.

    A subclass names the columns that it emits, and has :meth:`on_batch` or :meth:`on_row`. Each method may emit rows,
    in the forms that :meth:`mullion.Windowed.apply` describes: it returns them, or yields them::

        class Spikes(PaneProcessor, returns="value double, score double"):
            def create(self):
                return {"n": 0, "mean": 0.0, "m2": 0.0}

            def on_row(self, state, key, pane, row):
                ...
                if score > 3:
                    yield {"value": row["value"], "score": score}

            def on_close(self, state, key, pane):
                ...

    - ``returns``: the columns that it emits, as DDL or a ``StructType``.
    - ``pickle``: with ``True``, state is pickled. Whoever can write the checkpoint can then run code on the executors.

    State is kept between batches as bytes, with the query's checkpoint. It may be an Arrow table, or consist of
    numbers, text, dates, lists, dicts, sets, dataclasses and NumPy arrays. For other objects define :meth:`dump` and
    :meth:`load`, or set ``pickle=True``.

    The processor itself is sent to the workers with each batch: what a method stores in ``self`` is lost.
    """

    _returns: ClassVar[StructType | str | None] = None
    _pickle: ClassVar[bool] = False

    def __init_subclass__(cls, returns: StructType | str | None = None, pickle: bool = False, **others: Any) -> None:
        super().__init_subclass__(**others)
        if returns is not None:
            cls._returns = returns
        if pickle:
            cls._pickle = True

    def create(self) -> Any:
        """The state of a new pane: an object that the other methods change in place. By default an empty dict."""
        return {}

    def on_batch(self, state: Any, key: tuple[Any, ...], pane: Pane, rows: Any) -> Any:
        """Gets the rows of a pane that came in one batch, in order of arrival; the annotation determines their form.

        Windows that process rows one by one may call it several times for a batch, with consecutive rows.
        """
        raise NotImplementedError

    def on_row(self, state: Any, key: tuple[Any, ...], pane: Pane, row: dict[str, Any]) -> Any:
        """Gets one row of a pane, in order of arrival."""
        raise NotImplementedError

    def on_time(self, state: Any, key: tuple[Any, ...], pane: Pane) -> Any:
        """Called when the clock passes the pane's end, with ``on_time=True``. Rows may follow until the close.

        A session that grows has a new end, and the method is called again there.
        """

    def on_close(self, state: Any, key: tuple[Any, ...], pane: Pane) -> Any:
        """Called once, when the pane closes and has all its rows. Its state is then deleted."""

    def merge(self, state: Any, other: Any) -> Any:
        """Adds the state of a session that became part of another, and returns the state of both.

        Required for sessions. Either may be changed.
        """
        raise NotImplementedError

    def dump(self, state: Any) -> bytes:
        """The state as bytes."""
        what = f"the state of {type(self).__name__}"
        if self._pickle:
            return pickles.encode(state)
        try:
            return objects.encode(state, what)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(
                f"{error} Or define dump() and load() of {type(self).__name__}; or write {type(self).__name__}("
                "PaneProcessor, pickle=True), if nobody else can write the checkpoint."
            ) from None

    def load(self, written: bytes) -> Any:
        """The state of the bytes of :meth:`dump`."""
        return pickles.decode(written) if self._pickle else objects.decode(written)


def require_processor(processor: Any, *, merges: bool) -> None:
    """Raises :class:`InvalidArgumentError` for an object that cannot process panes."""
    if not isinstance(processor, PaneProcessor):
        fix = f"Write {processor.__name__}()" if isinstance(processor, type) else "Write a subclass of it"
        raise InvalidArgumentError(
            f"processor={processor!r} ({type(processor).__name__}) is not a PaneProcessor. {fix}."
        )
    name = type(processor).__name__
    if processor._returns is None:
        raise InvalidArgumentError(
            f"{name} does not name the columns that it emits. Write, for instance, "
            f"class {name}(PaneProcessor, returns='score double')."
        )
    by_row, by_batch = _has(processor, "on_row"), _has(processor, "on_batch")
    if by_row == by_batch:
        raise InvalidArgumentError(
            f"{name} has {'both' if by_row else 'neither'} on_row {'and' if by_row else 'nor'} on_batch. Define one of "
            "them: on_row(self, state, key, pane, row) or on_batch(self, state, key, pane, rows)."
        )
    if merges and not _has(processor, "merge"):
        raise InvalidArgumentError(
            f"{name} has no merge(self, state, other), and sessions merge: a row between two sessions makes them one. "
            "Define it; it returns the state of both."
        )
    state = processor.create()
    if not values.changeable(state):
        raise InvalidArgumentError(
            f"{name}.create() returned {state!r} ({type(state).__name__}), which cannot be changed in place. Return a "
            "dict, a list, a dataclass or another mutable object."
        )
    processor.load(processor.dump(state))


def processed(
    panes: DataFrame, processor: PaneProcessor, delivery: Delivery, *, ids: bool, shown_ids: bool
) -> DataFrame:
    """The rows that a processor emits for ``panes``, which have each of their rows once, in the column ``ROWS``."""
    assert processor._returns is not None
    returned = schema_of(processor._returns, "returns")
    fields = panes.schema.fields
    at = next(i for i, field in enumerate(fields) if field.name == ROWS)
    before, after = fields[:at], fields[at + 1 :]
    require_other_names(returned, [*before, *after], "returns")
    keys = tuple(field.name for field in before[:-2])
    takes: Takes | None = None
    if _has(processor, "on_batch"):
        takes = takes_of(processor.on_batch, 3, "on_batch(self, state, key, pane, rows: pandas.DataFrame)")
    stage = ProcessStage(processor, takes, keys, arrow_of(returned), bool(after), ids, joins=delivery == "row")
    # Panes fire before they close, so no operator after this one may rely on the watermark of their windows.
    columns = [StructField(f.name, f.dataType, f.nullable) for f in before]
    schema = StructType([*columns, *returned.fields, *after])
    if delivery != "close":
        emitted = keyed_map(panes, stage, schema, [sf.col(quoted(key)) for key in keys])
    else:
        emitted = in_pieces(panes, ROWS).mapInArrow(stage, schema)
    if ids and not shown_ids:
        pane = sf.struct(sf.col("pane.firing").alias("firing"), sf.col("pane.seq").alias("seq"))
        emitted = emitted.withColumn("pane", pane)
    return emitted


@final
@dataclass(frozen=True)
class ProcessStage:
    """Calls a processor for the firings of a task.

    - ``takes``: the form of the rows of ``on_batch``; ``None`` for ``on_row``.
    - ``ids``: true if panes are identified by their ids.
    - ``joins``: true if consecutive early firings of a pane are processed as one.
    """

    processor: PaneProcessor
    takes: Takes | None
    keys: tuple[str, ...]
    returned: pa.Schema
    late: bool
    ids: bool
    joins: bool

    @property
    def __name__(self) -> str:
        """The name of the processor in plans."""
        return type(self.processor).__name__

    def __call__(self, batches: Iterable[pa.RecordBatch], state: State | None = None) -> Iterator[pa.RecordBatch]:
        """With state for a micro-batch of a stream, without it for panes that only close."""
        if state is None:
            yield from self._emitted(Firings(batches, self.keys), MemoryStore(), lambda keys: None)
        else:
            yield from self._emitted(Firings(batches, self.keys, ROWS, joins=self.joins), state, state.get_many)

    def _emitted(
        self, firings: Iterable[Firing], records: Records, read_ahead: Callable[[list[bytes]], object]
    ) -> Iterator[pa.RecordBatch]:
        results, output = Results(self.returned), Output(self.returned, self.late)
        heads: Heads | None = None
        names: list[bytes] = []
        for firing in firings:
            if firing.heads is not heads:
                heads = firing.heads
                names = self._names(heads)
                read_ahead(names)
            if firing.pane.firing in ("late", "ahead"):
                yield from output.add(heads, firing.index, None)
                continue
            if firing.pane.firing == "early" and not firing.count:
                # A later firing has its rows.
                continue
            for rows in self._of_pane(firing, names[firing.index], records, results):
                yield from output.add(heads, firing.index, rows)
        yield from output.flush()

    def _of_pane(self, firing: Firing, name: bytes, records: Records, results: Results) -> Iterator[pa.RecordBatch]:
        processor, key, pane = self.processor, firing.key, firing.pane
        called: Callable[..., Any] = processor.load
        try:
            written = records.get(name)
            state = processor.create() if written is None else processor.load(written)
            for merged in pane.merged if self.ids else ():
                other = _name(key, merged)
                if (of_other := records.get(other)) is not None:
                    called = processor.merge
                    state = processor.merge(state, processor.load(of_other))
                    records.delete(other)
            if firing.count:
                called = processor.on_row if self.takes is None else processor.on_batch
                yield from results.batches(self._on_rows(firing, state))
            if pane.firing == "on_time":
                called = processor.on_time
                yield from results.batches(processor.on_time(state, key, pane))
            if pane.firing != "close":
                called = processor.dump
                records.put(name, processor.dump(state))
                return
            called = processor.on_close
            yield from results.batches(processor.on_close(state, key, pane))
            if written is not None:
                records.delete(name)
        except FAILURES as error:
            method = f"{type(processor).__name__}.{called.__name__}"
            raise failed_call(error, called, method, f"the pane {pane}{key_text(self.keys, key)}") from error

    def _on_rows(self, firing: Firing, state: Any) -> Any:
        if self.takes is not None:
            return self.processor.on_batch(state, firing.key, firing.pane, firing.rows(self.takes))
        on_row, key, pane = self.processor.on_row, firing.key, firing.pane
        rows = (row for batch in firing.batches() for row in batch.to_pylist())
        return flattened(on_row(state, key, pane, row) for row in rows)

    def _names(self, heads: Heads) -> list[bytes]:
        if self.ids:
            return [_name(key, pane.id) for key, pane in zip(heads.keys, heads.panes, strict=True)]
        return [_name(key, heads.window(index)) for index, key in enumerate(heads.keys)]


def _name(key: tuple[Any, ...], pane: Any) -> bytes:
    """The key of a pane's record in state."""
    return values.encode([*key, pane], "the key of a pane")


def _has(processor: PaneProcessor, method: str) -> bool:
    return inspect.getattr_static(type(processor), method) is not inspect.getattr_static(PaneProcessor, method)
