"""Windows without rows of keys that a table lists."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import final

from pyspark.sql import DataFrame

from mullion._util.signatures import explained
from mullion.errors import InvalidArgumentError
from mullion.windows._spec import hold


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class EmitFor:
    """Closes windows without rows as ``empty="emit"`` does, and for the keys of a table whether they have rows or not.

    - ``keys``: a batch DataFrame, or the name of a table or view. It has the columns of ``by``, by their names; other
      columns are ignored, and so are duplicates.

    A stream reads the table when it starts. A key that state lacks becomes known then: its windows close from the first
    one that is open on. If the clock has no reading yet, this is the window that is open at its first reading. Keys
    that are added to the table become known at the next start. A key stays known when its row leaves the table, like a
    key that has had rows.

    A batch DataFrame has the windows from the first to the last one with rows of any key. It reads its rows twice.

    The table has at most a million keys: the driver and each executor hold them in memory while the query starts. State
    has a record for each key.

    >>> EmitFor("sensors")
    EmitFor('sensors')

    Raises :class:`InvalidArgumentError` when ``keys`` is neither a DataFrame nor text. :func:`windowed` raises it for a
    stream, and for a table without the columns of ``by`` or with columns of other types. It raises
    :class:`UnsupportedError` for windows that rows define, ``.collect()`` and ``at_end="close"``.
    """

    keys: DataFrame | str
    table: str

    @explained("EmitFor(sensors.select('sensor'))", name="EmitFor")
    def __init__(self, keys: DataFrame | str) -> None:
        if isinstance(keys, str):
            hold(self, keys=keys, table=keys)
        elif isinstance(keys, DataFrame):
            hold(self, keys=keys, table=f"mullion_keys_{uuid.uuid4().hex}")
        else:
            raise InvalidArgumentError(
                f"EmitFor({keys!r}) was given a {type(keys).__name__}, which is neither a DataFrame nor the name of a "
                "table. Give it the keys as a DataFrame, such as EmitFor(sensors.select('sensor'))."
            )

    def __repr__(self) -> str:
        return f"EmitFor({self.keys!r})"
