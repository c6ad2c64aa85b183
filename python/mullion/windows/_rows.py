"""Count windows: ranges of row numbers, for each key in order of arrival."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, final

from pyspark.sql import Column

from mullion._util import durations
from mullion._util.durations import Duration
from mullion._util.signatures import explained
from mullion.errors import InvalidArgumentError
from mullion.windows._spec import column_of_row, forgetting, hashable_parts, hold, name_of, same_parts

if TYPE_CHECKING:
    import pyarrow

SplitOf: TypeAlias = (
    Callable[["pyarrow.RecordBatch"], Iterable[int] | None]
    | Callable[["pyarrow.RecordBatch", int], Iterable[int] | None]
)
"""A function from the buffer of a key, and the index of the first row of this batch, to the starts of windows."""


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Count:
    """Windows of ``size`` rows that start every ``every`` rows, for each key in order of arrival.

    The rows of a key are numbered from 0. Without ``every``, each row is in one window. If ``every`` is less than
    ``size``, windows overlap; if it is more, the rows between two windows are in none. The column ``window`` holds row
    numbers, ``start`` and ``end``, instead of times. A pane closes with the row that completes it. There is no clock
    and no late row, so write ``time=None``; a stream needs no watermark.

    An incomplete window is not emitted, not even on a batch DataFrame. State keeps the number of rows that
    each key has had, a small record for each key, as long as the query lasts.

    - ``timeout``: a window also closes when this much wall time has passed since its first row, with the rows that it
      has. Its ``end`` is then the number of its last row plus one, and the next row begins another window. The wall
      clock is the timestamp of the micro-batch; no rows are needed for the close. A batch DataFrame also returns the
      last, incomplete window of each key. ``timeout`` does not work with ``every``.
    - ``forget_after``: the wall time without rows after which a key is forgotten: its open panes close with the rows
      they have, and its record is removed. The rows of a key that returns are numbered from 0 again. ``None`` means
      never. It does not accept ``ids=True``. A batch DataFrame ignores it.

    >>> Count(100, every=100)
    Count(100)
    >>> Count(100, timeout="10 seconds")
    Count(100, timeout='10 seconds')

    Raises :class:`InvalidArgumentError` when ``size`` or ``every`` is not a whole number above zero, or ``timeout`` is
    not a duration longer than zero.
    """

    size: int
    every: int
    timeout_us: int | None
    forget_after_us: int | None

    @explained("Count(100)", {"size": "Say how many rows a window has."}, "Count")
    def __init__(
        self,
        size: int,
        every: int | None = None,
        *,
        timeout: Duration | None = None,
        forget_after: Duration | None = None,
    ) -> None:
        size = _rows(size, "size", "Count(100)")
        step = size if every is None else _rows(every, "every", "Count(100, every=10)")
        timeout_us = None if timeout is None else durations.positive(timeout, "timeout", "Count(100, timeout={})")
        if timeout_us is not None and step != size:
            raise InvalidArgumentError(
                f"timeout={timeout!r} with every={every!r}: where a timeout closes a window, the starts of the others "
                f"would move. Leave every= out, as in Count({size}, timeout={timeout!r})."
            )
        hold(self, size=size, every=step, timeout_us=timeout_us)
        hold(self, forget_after_us=forgetting(forget_after, "Count(100, forget_after={})"))

    def __repr__(self) -> str:
        every = "" if self.every == self.size else f", every={self.every}"
        timeout = "" if self.timeout_us is None else f", timeout={durations.written(self.timeout_us)!r}"
        return f"Count({self.size}{every}{timeout}{_forgets(self.forget_after_us)})"


@final
@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Global:
    """One window after another over all rows of a key. A trigger closes each window, and the next one starts there.

    Create it with :meth:`every`, :meth:`when`, :meth:`changes` or, with a Python function, :meth:`split`. Rows are
    processed in order of arrival, and the column ``window`` holds their numbers, as for :class:`Count`. A window that
    its trigger has not closed is not emitted.

    ``forget_after`` is the wall time without rows after which a key is forgotten, as for :class:`Count`.

    Two specs are equal when they close after the same number of rows, by the same function over the same columns, or by
    the same Column object, because Columns cannot be compared.
    """

    count: int | None
    condition: Column | str | None
    changing: Column | str | None
    splitting: SplitOf | None
    columns: tuple[str, ...] | None
    ends_with: Column | str | None
    forget_after_us: int | None

    def __init__(self, trigger: object = None) -> None:
        meant = "Global.every(100), Global.when(F.col('done')), Global.changes('status') or Global.split(function)"
        if callable(trigger) and not isinstance(trigger, Column):
            raise InvalidArgumentError(
                f"Global({trigger!r}) does not say what the function is for. Write Global.split(function) for one that "
                "gets a key's buffered rows, or say when a window closes with a column: Global.when(F.col('done'))."
            )
        raise InvalidArgumentError(f"Global() does not say when a window closes. Write {meant}.")

    @classmethod
    @explained("Global.every(100)", name="Global.every")
    def every(cls, rows: int, *, ends_with: Column | str | None = None, forget_after: Duration | None = None) -> Global:
        """Closes a window after every ``rows`` rows.

        With ``ends_with`` a window also closes after a row for which that condition is true: a boolean column, or a
        condition over aggregates of the window's rows so far, as in :meth:`when`.

        >>> Global.every(100)
        Global.every(100)
        >>> Global.every(100, ends_with="is_last")
        Global.every(100, ends_with='is_last')
        """
        return cls._of(
            count=_rows(rows, "rows", "Global.every(100)"), ends_with=_ends_with(ends_with), forget_after=forget_after
        )

    @classmethod
    @explained("Global.when(F.col('done'))", name="Global.when")
    def when(cls, condition: Column | str, *, forget_after: Duration | None = None) -> Global:
        """Closes a window after each row for which ``condition``, a boolean column, is true. A null is not true.

        The condition may contain aggregates. They are over the rows of the window so far, and over the keys:
        ``Global.when(F.sum("amount") > 100)`` closes a window with the row that brings the sum above 100. Such a
        condition does not work with ``.collect()``, and cannot call Python functions.
        """
        condition = column_of_row(condition, "Global.when(F.col('status') == 'done')")
        return cls._of(condition=condition, forget_after=forget_after)

    @classmethod
    @explained("Global.changes('status')", name="Global.changes")
    def changes(
        cls,
        column: Column | str,
        *,
        ends_with: Column | str | None = None,
        forget_after: Duration | None = None,
    ) -> Global:
        """Closes a window before each row whose ``column`` differs from the row before it. Nulls are equal.

        With ``ends_with`` a window also closes after a row with which that condition becomes true, as in :meth:`every`.

        >>> Global.changes("status")
        Global.changes('status')
        """
        column = column_of_row(column, "Global.changes('status')")
        return cls._of(changing=column, ends_with=_ends_with(ends_with), forget_after=forget_after)

    @classmethod
    @explained("Global.split(function)", name="Global.split")
    def split(cls, function: SplitOf, columns: Sequence[str] | None = None) -> Global:
        """Closes windows at the indices that a Python function returns.

        - ``function`` receives the buffer of a key, as a ``pyarrow.RecordBatch`` in order of arrival: the rows that are
          in no closed window yet. A second parameter, if it has one, is the index of the first row of this batch. It
          returns the indices of the buffer at which new windows start, ascending, as a list or an array. The rows
          before the first index are one window, and the rows from the last index on stay buffered. ``len(buffer)`` as
          the last index empties the buffer; ``[]`` or ``None`` splits nothing. This is the trigger of ``global_window``
          in the KX Stream Processor.
        - ``columns``: the columns of the input that the function receives; ``None`` for all.

        Python workers call the function once per batch for each key that received rows, with the complete buffer of the
        key. The buffer is read again each time, and must fit into the memory of a task;
        ``spark.sql.streaming.stateStore.mullion.maxAccumulatorBytes`` limits its bytes. On a batch DataFrame the
        function is called once, with all rows of a key. The result equals that of a stream only if the function does
        not depend on the batches. It must return the same result for the same rows, because a batch may be repeated.

        If the function raises an error, or returns an invalid result, the query fails with a :class:`FunctionError`
        that has the key and the line. Fix the function, then restart the query from its checkpoint. A checkpoint
        identifies a function by its name, so Mullion cannot detect a change in its body.

        >>> def after_gaps(trades):
        ...     times = trades["ms"].to_pylist()
        ...     return [i for i in range(1, len(times)) if times[i] - times[i - 1] > 5000]
        >>> Global.split(after_gaps, columns=["ms"])
        Global.split(after_gaps, columns=['ms'])

        Raises :class:`InvalidArgumentError` when ``function`` cannot be called with one argument or with two, or
        ``columns`` is not a list of names.
        """
        _takes_offset(function)
        if columns is not None:
            listed = isinstance(columns, (list, tuple)) and len(columns) > 0
            if not listed or not all(isinstance(column, str) for column in columns):
                raise InvalidArgumentError(
                    f"columns={columns!r} ({type(columns).__name__}) is not a list of columns' names. Write "
                    "columns=['price', 'size'], or leave it out for all."
                )
        return cls._of(splitting=function, columns=None if columns is None else tuple(columns))

    @property
    def function(self) -> str | None:
        """The function's name; ``None`` if windows close by a column or a number of rows."""
        return None if self.splitting is None else name_of(self.splitting)

    @property
    def takes_offset(self) -> bool:
        """True if the function has a parameter for the index of the first row of the batch."""
        return self.splitting is not None and _takes_offset(self.splitting)

    @classmethod
    def _of(
        cls,
        count: int | None = None,
        condition: Column | str | None = None,
        changing: Column | str | None = None,
        splitting: SplitOf | None = None,
        columns: tuple[str, ...] | None = None,
        ends_with: Column | str | None = None,
        forget_after: Duration | None = None,
    ) -> Global:
        spec = object.__new__(cls)
        hold(spec, count=count, condition=condition, changing=changing, splitting=splitting, columns=columns)
        hold(spec, ends_with=ends_with, forget_after_us=forgetting(forget_after, "Global.every(100, forget_after={})"))
        return spec

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Global) and same_parts(self._fields, other._fields)

    def __hash__(self) -> int:
        return hash((Global, *hashable_parts(self._fields)))

    def __repr__(self) -> str:
        ends_with = "" if self.ends_with is None else f", ends_with={self.ends_with!r}"
        more = f"{ends_with}{_forgets(self.forget_after_us)}"
        if self.count is not None:
            return f"Global.every({self.count}{more})"
        if self.splitting is not None:
            columns = "" if self.columns is None else f", columns={list(self.columns)!r}"
            return f"Global.split({self.function}{columns})"
        if self.condition is not None:
            return f"Global.when({self.condition!r}{more})"
        return f"Global.changes({self.changing!r}{more})"

    @property
    def _fields(self) -> tuple[object, ...]:
        parts = (self.count, self.condition, self.changing, self.splitting, self.columns)
        return (*parts, self.ends_with, self.forget_after_us)


def _ends_with(condition: Column | str | None) -> Column | str | None:
    return None if condition is None else column_of_row(condition, "Global.every(100, ends_with=F.sum('v') > 100)")


def _takes_offset(function: object) -> bool:
    """True if the function requires a second argument. A function that can be called with one receives one."""
    if not callable(function):
        raise InvalidArgumentError(
            f"function={function!r} ({type(function).__name__}) cannot be called. Write, for instance, "
            "Global.split(lambda buffer: [len(buffer)])."
        )
    try:
        signature = inspect.signature(function)
    except ValueError:
        # Functions in C may have no signature.
        return False
    for arguments in (1, 2):
        try:
            signature.bind(*range(arguments))
        except TypeError:
            continue
        return arguments == 2
    raise InvalidArgumentError(
        f"{name_of(function)}{signature} cannot be called with the buffered rows, nor with them and the index at "
        "which those of this batch begin. Write def function(buffer) or def function(buffer, offset)."
    )


def _forgets(us: int | None) -> str:
    return "" if us is None else f", forget_after={durations.written(us)!r}"


def _rows(rows: object, name: str, example: str) -> int:
    if isinstance(rows, int) and not isinstance(rows, bool) and rows > 0:
        return rows
    raise InvalidArgumentError(
        f"{name}={rows!r} ({type(rows).__name__}) is not a whole number of rows above 0. Write, for instance, "
        f"{example}."
    )
