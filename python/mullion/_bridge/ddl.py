"""Types that the user writes as DDL text."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql.types import DataType

from mullion._util.tracebacks import in_one_line
from mullion.errors import InvalidArgumentError


def type_of(ddl: str, argument: str, example: str, kind: str = "type") -> DataType:
    """The type of a DDL text: a struct if the text lists columns. Spark reads it in its session.

    Raises :class:`InvalidArgumentError` for a text that Spark cannot read, with the argument's name and an example.
    Without a session, Spark's own error is raised.
    """
    try:
        return DataType.fromDDL(ddl)
    except PySparkException as error:
        if error.getCondition() == "SESSION_OR_CONTEXT_NOT_EXISTS":
            raise
        reason = in_one_line(str(error)).partition(" SQLSTATE:")[0].rstrip(".")
        raise InvalidArgumentError(
            f"{argument}={ddl!r} is not a {kind} as DDL: {reason}. Write, for instance, {argument}={example!r}."
        ) from None
