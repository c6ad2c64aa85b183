"""The sharding of an agent's events, from its body, its stream and its topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from pyspark.sql.types import StructType

from mullion._pyfunction.functions import (
    source_of,
)
from mullion.errors import InvalidArgumentError
from mullion.faust._sharding.blockers import leave_alone
from mullion.faust._sharding.body import Body, Keyed, field_of
from mullion.faust._sharding.reach import tables_of
from mullion.faust._sharding.values import Values
from mullion.faust.agents import Agent
from mullion.faust.models import Record
from mullion.faust.streams import GroupBy, Step


@final
@dataclass(frozen=True)
class Sharding:
    """The sharding of an agent's events: a field, ``""`` for their keys, ``None`` for one shard.

    ``default`` is the shard of an event that lacks the field.
    """

    field: str | None
    words: str
    default: str = ""

    def key_of(self, key: Any, value: Any) -> Any:
        """The value that determines the shard of an event."""
        if not self.field:
            return key
        if isinstance(value, Mapping):
            return value.get(self.field)
        return getattr(value, self.field) if isinstance(value, Record) else value


def sharding_of(agent: Agent, steps: tuple[Step, ...], group: GroupBy | None, columns: StructType | None) -> Sharding:
    """Returns the sharding of an agent's events.

    - ``steps``, ``group``: the operations on its stream.
    - ``columns``: the columns of its topic's values, ``None`` if they are not known yet.

    Raises :class:`InvalidArgumentError` if its tables are known to have different keys.
    """
    values = Values(agent.channel)
    if any(one.is_global for one in tables_of(agent)):
        return Sharding(None, "one shard, because it uses a table that is global")
    table = iterated(agent)
    if table is not None:
        return Sharding(None, f"one shard, because it uses all keys of the table {table[0]!r} ({table[1]})")
    if group is not None:
        grouped = field_of(group)
        if grouped is None or not (values.has(grouped, columns) and leave_alone(steps, values)):
            return Sharding(None, f"one shard, grouped by {group}")
        check(agent, group)
        return Sharding(grouped, f"shards by {grouped}", values.default(grouped))
    out_of_sight = hidden(agent)
    if out_of_sight is not None:
        return Sharding(None, f"one shard, because it may use tables through {out_of_sight}")
    keys = keys_of(agent)
    if not keys:
        return Sharding("", "shards by their keys")
    for one in keys:
        if one.field is None or not (one.field == "" or values.has(one.field, columns)):
            return Sharding(None, f"one shard, because its tables are of {_key_text(one.key)}")
    check(agent, None)
    name = next(iter({one.field for one in keys}))
    assert name is not None
    if not leave_alone(steps, values) and name:
        return Sharding(None, "one shard, because its stream is filtered by what may change events")
    return Sharding(name, f"shards by {name}" if name else "shards by their keys", values.default(name))


def keys_of(agent: Agent, group: GroupBy | None = None) -> list[Keyed]:
    """The keys by which an agent's body uses tables, in order of lines."""
    source = source_of(agent.function)
    return [] if source is None else Body(agent, source, group).keys()


def iterated(agent: Agent) -> tuple[str, str] | None:
    """The first table that a body uses with all its keys, and the place as ``file:line``."""
    source = source_of(agent.function)
    return None if source is None else Body(agent, source, None).iterates()


def hidden(agent: Agent) -> str | None:
    """The place where a body may use a table by a key that its code does not show; ``None`` if all keys are visible.

    Such places are a table that is neither used as ``table[key]`` nor iterated, and anything that leads to a table: a
    function that uses one, a list of them, a sink.
    """
    source = source_of(agent.function)
    if source is None:
        return "its source, which is not available"
    return Body(agent, source, None).hidden()


def check(agent: Agent, group: GroupBy | None) -> None:
    """Rejects an agent whose tables are known to have different keys, or other keys than its stream.

    Raises :class:`InvalidArgumentError` with each table, its key and the line, and the agents to write instead.
    """
    keys = [one for one in keys_of(agent, group) if one.field is not None]
    shown = ", ".join(f"{one.table}[{_key_text(one.key)}] ({one.where})" for one in keys)
    if group is not None:
        name = field_of(group)
        if name is not None and any(one.field != name for one in keys):
            raise InvalidArgumentError(
                f"The agent {agent.name!r} goes through a stream grouped by {group}, and uses tables by another key: "
                f"{shown}. The records of one key would be in several shards. Write one agent per key, and group its "
                "stream by that key."
            )
        return
    if len({one.field for one in keys}) > 1:
        raise InvalidArgumentError(
            f"The agent {agent.name!r} uses tables by different keys: {shown}. Its events can only be in shards by "
            "one of them, and the totals of the others would be split. Write an agent for each key, that goes "
            "through stream.group_by(...) of it."
        )


def _key_text(key: str) -> str:
    return key.replace("_.", "event.").replace("_[", "event[") if key != "_" else "event"
