"""Windows that ``process`` makes from data: the operators that have their panes, and their recovery in workers.

A worker makes the window, stores its spec in the state of its shard, and sends its rows on with its name. One operator
has the panes of all windows of a :class:`Shape`. These windows differ only in names and lengths, which the rows
contain::

    window   size_ms   region  amount           operator of the shape
    north    60000     n       3           ->   panes by (window, region), tumbling by each row's size
    vip      5000      n       3

The operators of a query are fixed when it starts. So a worker with a window of a new shape fails the batch, with the
shape in the message. The driver records the shape next to the checkpoint and restarts the query with one more operator,
and the batch runs again. Nothing of the failed batch was saved or published.

``self`` of ``process`` lives as long as a micro-batch and shard. Before its first rows, ``on_recover(name, spec)`` is
called for each window that the shard made earlier, with or without a restart of the program. Where panes fire, it is
called for the windows of these panes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final

import pyarrow as pa
import pyarrow.compute as pc

from mullion._keyed.calls import FAILURES, failed_call
from mullion._keyed.store import Records
from mullion._program.manifest import Manifest
from mullion._util.codec.arrow import schema_of_text, text_of_schema
from mullion._util.files import reading
from mullion.errors import FunctionError, InvalidArgumentError, NewWindowsError
from mullion.turbine._process import aggregate_json
from mullion.turbine._process.stored_window import KEPT, WindowSpec, specs_of
from mullion.turbine._spec import VALUE
from mullion.turbine.aggregates import Aggregate, Multi
from mullion.turbine.windowing import BUILDING, TurbineWindow

NAME: Final = "__mullion_window"
SIZE: Final = "__mullion_size_ms"
SLIDE: Final = "__mullion_slide_ms"
GAP: Final = "__mullion_gap_ms"

_SAID: Final = '{"shapes": '


@final
@dataclass(frozen=True)
class Shape:
    """The properties that all windows of one operator share.

    - ``lengths``: the lengths on processing time, where rows cannot contain them.
    - ``schema``: of the columns that the windows need, in the types of the first rows.
    """

    session: bool
    lengths: tuple[int | None, ...]
    key: tuple[str, ...]
    value: Aggregate | Multi
    time_column: str | None
    allowed_lateness_ms: int
    early_fire_interval_ms: int | None
    schema: pa.Schema = field(compare=False)

    @classmethod
    def of(cls, spec: WindowSpec, schema: pa.Schema) -> Shape:
        """The shape of a window whose columns have these types."""
        lengths = (spec.size_ms, spec.slide_ms, spec.gap_ms) if spec.time_column is None else ()
        return cls(
            spec.gap_ms is not None,
            lengths,
            spec.key,
            spec.value,
            spec.time_column,
            spec.allowed_lateness_ms,
            spec.early_fire_interval_ms,
            schema,
        )

    @property
    def name(self) -> str:
        """The name of its operator: equal shapes have equal names."""
        text = json.dumps(
            [
                self.session,
                self.lengths,
                self.key,
                repr(self.value),
                self.time_column,
                self.allowed_lateness_ms,
                self.early_fire_interval_ms,
            ]
        )
        return f"from data {hashlib.sha256(text.encode()).hexdigest()[:12]}"

    @property
    def parts(self) -> dict[str, Aggregate]:
        """The aggregates by the names of their result columns."""
        return self.value.parts if isinstance(self.value, Multi) else {VALUE: self.value}

    @property
    def rows(self) -> pa.Schema:
        """The schema of the operator's input: the window's name and lengths, then the columns that the window needs."""
        lengths = [GAP] if self.session else [SIZE, SLIDE]
        return pa.schema([(NAME, pa.string()), *((each, pa.int64()) for each in lengths), *self.schema])

    def rows_of(self, spec: WindowSpec, columns: list[pa.Array], count: int) -> pa.RecordBatch:
        """The operator's input for ``count`` rows of a window."""
        lengths = [spec.gap_ms] if self.session else [spec.size_ms, spec.slide_ms or spec.size_ms]
        arrays = [pa.repeat(pa.scalar(spec.name, pa.string()), count)]
        arrays += [pa.repeat(pa.scalar(length, pa.int64()), count) for length in lengths]
        return pa.RecordBatch.from_arrays([*arrays, *columns], schema=self.rows)

    def to_json(self) -> dict[str, Any]:
        """The shape as plain JSON."""
        fields = vars(self) | {"value": aggregate_json.to_json(self.value)}
        return fields | {"schema": text_of_schema(self.schema)}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Shape:
        """The shape that :meth:`to_json` wrote."""
        schema = schema_of_text(fields["schema"])
        value = aggregate_json.from_json(fields["value"])
        lengths, key = tuple(fields["lengths"]), tuple(fields["key"])
        return cls(**{**fields, "lengths": lengths, "key": key, "value": value, "schema": schema})


def shapes_in(folder: Path) -> list[Shape]:
    """The shapes that are recorded next to a checkpoint, in order of their names."""
    manifest = Manifest(folder)
    shapes = manifest.read("windows from data", list) or []
    with reading(manifest.file):
        return sorted(map(Shape.from_json, shapes), key=lambda shape: shape.name)


def note(folder: Path, error: BaseException) -> bool:
    """Records the shapes that an error contains; returns True if any of them is new."""
    if not isinstance(error, NewWindowsError):
        return False
    text, noted = str(error), shapes_in(folder)
    report, _ = json.JSONDecoder().raw_decode(text, text.index(_SAID))
    fresh = [shape for shape in map(Shape.from_json, report["shapes"]) if shape not in noted]
    if fresh:
        Manifest(folder).write("windows from data", [shape.to_json() for shape in [*noted, *fresh]])
    return bool(fresh)


@final
@dataclass(frozen=True)
class FromData:
    """The data with which workers make the windows of a subscription.

    - ``instance``: the subscription's object, on which ``process`` and ``on_recover`` are called.
    - ``taken``: the names that are in use in the App.
    - ``shapes``: the shapes that have operators, by their names.
    """

    subscription: str
    instance: Any
    partition_key: str | None
    taken: frozenset[str]
    shapes: Mapping[str, Shape]


@final
class Maker:
    """The windows of one shard in one task: recovered ones and new ones."""

    def __init__(self, from_data: FromData, records: Records) -> None:
        self._from_data = from_data
        self._instance = from_data.instance
        self._records = records
        self._specs = specs_in(records)
        self._fresh: dict[str, WindowSpec] = {}
        self._missing: dict[str, Shape] = {}
        self.begin()

    @property
    def partition_key(self) -> str | None:
        """The column by which rows are sharded."""
        return self._from_data.partition_key

    def add(self, window: TurbineWindow) -> None:
        """Registers a window; raises an error if it differs from the earlier window of its name."""
        name, spec = window.name, WindowSpec.of(window.spec)
        if name in self._from_data.taken:
            raise InvalidArgumentError(
                f"process of {self._from_data.subscription} makes a window {name!r}, and the App has a part of that "
                "name already. State is kept under the name: give the window another."
            )
        before = self._specs.get(name)
        if before is None:
            # Raises the error for an unsupported aggregate where the window is made.
            spec.to_json()
            self._specs[name] = self._fresh[name] = spec
        elif before != spec:
            raise InvalidArgumentError(
                f"The window {name!r} was made before, and is another one now: {'; '.join(before.differences(spec))}. "
                "Its panes are kept under its name. Give the new one a name of its own."
            )

    def begin(self) -> None:
        """Accepts the windows of earlier calls."""
        self._accepted = dict(self._specs), dict(self._fresh), dict(self._missing)

    def undo(self) -> None:
        """Removes the windows since :meth:`begin`."""
        self._specs, self._fresh, self._missing = self._accepted

    @contextmanager
    def making(self) -> Iterator[None]:
        """Windows may be made during the ``with`` block."""
        token = BUILDING.set((self._instance, self))
        try:
            yield
        finally:
            BUILDING.reset(token)

    def recover_all(self) -> None:
        """Calls ``on_recover`` for all windows that the shard made earlier."""
        for name in list(self._specs):
            self.recovered(name)

    def recovered(self, name: str) -> TurbineWindow:
        """Recovers one window with ``on_recover``."""
        spec = self._specs.get(name)
        if spec is None:
            raise FunctionError(f"The window {name!r} has panes, and the state of its shard has no spec of it.")
        what = f"on_recover of {self._from_data.subscription}"
        with self.making():
            try:
                window = self._instance.on_recover(name, spec)
            except FAILURES as error:
                raise failed_call(error, self._instance.on_recover, what, f"the window {name!r}") from error
        if not isinstance(window, TurbineWindow) or window.name != name:
            raise FunctionError(
                f"{what} was asked for the window {name!r} and returned {window!r}. Return it as it was made, as in "
                "spec.window(self, on_close_each=self._emit)."
            )
        return window

    def take(self, window: TurbineWindow, schema: pa.Schema) -> Shape | None:
        """The shape of a window that gets rows, if it has an operator; otherwise records that it needs one."""
        if window.name not in self._specs:
            raise InvalidArgumentError(f"update() of {window!r}, which no process of this shard has made.")
        shape = Shape.of(self._specs[window.name], schema)
        known_shape = self._from_data.shapes.get(shape.name)
        if known_shape is None:
            untyped = [each.name for each in schema if pa.types.is_null(each.type)]
            if untyped:
                raise InvalidArgumentError(
                    f"The window {window.name!r} is of a kind that is new, and in the first rows that it is given the "
                    f"column {untyped[0]!r} has no value and no type. Give it one, as in "
                    "pa.RecordBatch.from_pylist(rows, schema=batch.schema)."
                )
            self._missing[shape.name] = shape
        return known_shape

    def finish(self) -> None:
        """Stores the specs of new windows; fails if a window needs an operator that the query does not have."""
        if self._missing:
            report = json.dumps({"shapes": [shape.to_json() for shape in self._missing.values()]})
            raise NewWindowsError(
                f"process of {self._from_data.subscription} made windows of a kind that is new to it, and the query "
                f"starts again with them. {report}"
            )
        for name, spec in self._fresh.items():
            self._records.put(KEPT + name.encode(), spec.to_json())


def specs_in(records: Records) -> dict[str, WindowSpec]:
    """The specs that a shard stores, in order of their names."""
    return specs_of(records.scan(KEPT))


def by_window(panes: pa.Table, column: str) -> Iterator[tuple[str, pa.Table]]:
    """Panes of several windows, grouped by window, in order of the windows' names."""
    for name in sorted(pc.unique(panes[column]).to_pylist()):
        yield name, panes.filter(pc.equal(panes[column], name)).drop_columns([column])
