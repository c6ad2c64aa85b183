"""The schemas of the batches that callbacks return."""

from __future__ import annotations

from typing import final

import pyarrow as pa

from mullion._util.codec.arrow import schema_in
from mullion.errors import FunctionError
from mullion.turbine._process import callback_schemas


@final
class Returns:
    """The schemas that the callbacks of a query have returned since the program started."""

    def __init__(self) -> None:
        self._schemas: dict[str, pa.Schema] = {}

    def __getitem__(self, name: str) -> pa.Schema | None:
        return self._schemas.get(name)

    def take(self, name: str, what: str, encoded: bytes) -> None:
        """Records a schema that a callback returned; raises :class:`FunctionError` if it does not fit earlier ones."""
        before, now = self._schemas.get(name), schema_in(encoded)
        if before is not None:
            differs = callback_schemas.difference(before, now)
            if differs is not None:
                raise FunctionError(
                    f"{what} returned another schema than before: {differs}. What it returns has one schema; a column "
                    "without values may be null."
                )
            now = callback_schemas.merged(before, now)
        self._schemas[name] = now

    def is_known(self, name: str) -> bool:
        """Returns True if the types of all columns of a callback are known."""
        return name in self._schemas and not any(pa.types.is_null(field.type) for field in self._schemas[name])
