"""The choice of the agents that run in the JVM, and their instructions.

A body is translated into instructions, as JSON. The JVM operator executes them for each event, on the records and
tables that Python would use. So the result does not depend on the place where an agent runs::

    kind           plain values   own tables    runs in
    fold           yes            yes           the JVM
    running        yes            yes           the JVM; prints and yields run in Python
    any            no             -             Python
    python         -              -             Python

The JVM computes exactly the result of Python or gives up. It gives up at an event that Python would fail on, an int of
more than 64 bits, and a value of another type. Python then processes all events of the agent in that batch and shard.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import timedelta
from typing import Any, Final, final

from pyspark.sql import types as T  # noqa: N812

from mullion._pyfunction.jvm import PYTHONS, JvmWriter, constant
from mullion._pyfunction.reader import parts_of
from mullion._pyfunction.syntax import (
    Call,
    Const,
    Dict,
    Expression,
    Field,
    If,
    Item,
    Let,
    Local,
    Operation,
    Refused,
    Statement,
    Text,
)
from mullion.faust._agent_code import parser
from mullion.faust._agent_code.syntax import About, Edge, Emit, Print, Read, Reading, Update, Value
from mullion.faust._values.times import length_us
from mullion.faust.agents import Agent
from mullion.faust.channels import Channel
from mullion.faust.models import METADATA, FieldDescriptor, Record
from mullion.faust.tables.table import Table
from mullion.faust.windows import _Grid

_PLAIN: Final = (
    T.LongType,
    T.IntegerType,
    T.ShortType,
    T.ByteType,
    T.DoubleType,
    T.FloatType,
    T.BooleanType,
    T.StringType,
    T.NullType,
)
_KINDS: Final[dict[Any, str]] = {int: "int", float: "float", str: "str", bool: "bool"}
_FORKS: Final = frozenset(("and", "or", "if"))
_LONGEST_US: Final = 2**52


@final
@dataclass(frozen=True)
class Decided:
    """The place where an agent runs, the reason, and the deciding line as ``file:line``.

    ``steps`` is set only for an agent in the JVM.
    """

    jvm: bool
    why: str
    where: str
    steps: Mapping[str, Any] | None = None
    effects: tuple[Print | Emit, ...] = ()
    group: Any = None
    tables: tuple[str, ...] = ()


def decide(
    agent: Agent,
    agents: Sequence[Agent],
    tables: Mapping[str, Table],
    columns: T.StructType | None,
    reached: Callable[[Agent], set[str] | None],
) -> Decided:
    """Decides where an agent runs.

    - ``agents``: all agents of the program; ``tables``: its tables, by name.
    - ``columns``: the columns of the topic's values, ``None`` if they are not known yet.
    - ``reached``: the tables that an agent may use, as :func:`mullion.faust._sharding.reached` finds them.
    """
    reading = parser.read(agent)
    if reading.kind == "python":
        return Decided(False, reading.why, reading.where)
    channel = agent.channel
    if channel.is_raw or channel.has_json_keys:
        return Decided(False, "its topic's values, or keys, are written in another way", reading.where)
    if channel.value_type is None and columns is not None and METADATA in columns.names:
        return Decided(False, "its topic's messages name their models", reading.where)
    try:
        _require_own(agent, agents, reading.tables, reached)
        writer = _BodyWriter(agent, reading, tables, columns)
        steps = writer.program()
    except Refused as refused:
        where = reading.where
        if refused.line is not None:
            where = f"{where.rpartition(':')[0]}:{refused.line}"
        return Decided(False, refused.why, where)
    return Decided(True, reading.why, reading.where, steps, tuple(writer.effects), reading.group, reading.tables)


def program(
    decided: Mapping[int, tuple[str, bool, Decided]],
    tables: Mapping[str, Table],
    begins: Sequence[bytes],
    sharded: bool,
) -> str:
    """Returns the operator's program, in JSON.

    - ``decided``: the agents in the JVM by number: the column of their values, and True if a value is its only field.
    - ``begins``: the records that exist after Python has run the program's startup code.
    - ``sharded``: True if events are in shards, against which each key is checked.
    """
    names = list(dict.fromkeys(name for _, _, one in decided.values() for name in one.tables))
    agents = []
    for number, (column, scalar, one) in decided.items():
        assert one.steps is not None
        own = [names.index(name) for name in one.tables]
        agents.append(
            {"number": number, "column": column, "scalar": scalar, **_with_numbers(one.steps, names), "tables": own}
        )
    return json.dumps(
        {
            "tables": [_table(tables[name]) for name in names],
            "agents": agents,
            "begins": [b.decode() for b in begins],
            "sharded": sharded,
        }
    )


def filled(of: Print | Emit, values: Sequence[Any]) -> Print | Emit:
    """Replaces the expressions that only the operator can evaluate by their values."""
    constants = iter(values)
    if isinstance(of, Emit):
        return Emit(_with_constants(of.value, constants), of.line)
    return Print(tuple(_with_constants(one, constants) for one in of.values), of.line)


def _with_constants(of: Expression, constants: Iterator[Any]) -> Expression:
    if isinstance(of, (Read, Local, Edge)):
        return Const(next(constants))
    if isinstance(of, Operation):
        return Operation(of.sign, tuple(_with_constants(one, constants) for one in of.operands))
    if isinstance(of, Call):
        return Call(of.name, tuple(_with_constants(one, constants) for one in of.arguments))
    if isinstance(of, Item):
        return Item(_with_constants(of.of, constants), _with_constants(of.key, constants))
    if isinstance(of, Dict):
        keys = tuple(_with_constants(one, constants) for one in of.keys)
        return Dict(keys, tuple(_with_constants(one, constants) for one in of.values))
    if isinstance(of, Text):
        return Text(tuple(_with_constants(one, constants) for one in of.parts), of.formats)
    return replace(of, of=_with_constants(of.of, constants)) if isinstance(of, Field) else of


def _unknown(of: Expression) -> Iterator[Expression]:
    """The expressions that only the operator can evaluate, in the order of :func:`filled`."""
    if isinstance(of, (Read, Local, Edge)):
        yield of
    else:
        for one in parts_of(of):
            yield from _unknown(one)


def _parts(of: Any) -> Iterator[Any]:
    """A statement or an expression, and all nested ones."""
    yield of
    for field in fields(of):
        value = getattr(of, field.name)
        for one in value if isinstance(value, tuple) else (value,):
            if is_dataclass(one):
                yield from _parts(one)


def _may_read(of: Print | Emit) -> bool:
    """True if the event determines which tables are read, or in which order."""
    parts = list(_parts(of))
    forks = any(
        part.sign in _FORKS
        if isinstance(part, Operation)
        else isinstance(part, Dict) and not all(isinstance(key, Const) for key in part.keys)
        for part in parts
    )
    return forks and any(isinstance(part, Read) for part in parts)


def _require_own(
    agent: Agent, agents: Sequence[Agent], tables: Sequence[str], reached: Callable[[Agent], set[str] | None]
) -> None:
    """Rejects tables that another agent may use: in a shard, agents in the JVM run before all others."""
    for other in agents:
        shared = () if other is agent else reached(other)
        for name in tables:
            if shared is None or name in shared:
                raise Refused(f"the agent {other.name!r} may use the table {name!r} too")


def _table(table: Table) -> dict[str, Any]:
    window = table.window
    assert isinstance(window, _Grid)
    return {
        "name": table.name,
        "size": window._size_us,
        "step": window._step_us,
        "expires": window._expires_us,
        "default": constant(parser.default_of(table)),
        "indexed": table.key_index,
        "tells": table.on_window_close is not None,
    }


def _with_numbers(program: Any, names: Sequence[str]) -> Any:
    """Replaces the names of tables by their numbers."""
    if isinstance(program, _Name):
        return names.index(program)
    if isinstance(program, list):
        return [_with_numbers(one, names) for one in program]
    return {key: _with_numbers(one, names) for key, one in program.items()} if isinstance(program, dict) else program


class _Name(str):
    """A placeholder for a table's number."""

    __slots__ = ()


class _BodyWriter(JvmWriter):
    def __init__(
        self, agent: Agent, reading: Reading, tables: Mapping[str, Table], columns: T.StructType | None
    ) -> None:
        super().__init__()
        self._agent = agent
        self._reading = reading
        self._tables = tables
        self._columns = columns
        self._asks = any(isinstance(part, Edge) for one in reading.statements for part in _parts(one))
        self.effects: list[Print | Emit] = []
        self._kind = agent.channel.value_type

    def program(self) -> dict[str, Any]:
        """Returns the agent's entry in the operator's program."""
        if self._agent.channel.key_type not in (None, str):
            raise Refused(f"keys of the topic {self._agent.channel.name!r} are read as {self._agent.channel.key_type}")
        model = self._model()
        for name in self._reading.tables:
            self._require_short(name)
        return {"model": model, "steps": self._block(self._reading.statements), "locals": len(self.locals)}

    def _require_short(self, name: str) -> None:
        window = self._tables[name].window
        assert isinstance(window, _Grid)
        if max(window._size_us, window._step_us, window._expires_us or 0) > _LONGEST_US:
            raise Refused(f"the table {name!r} has ranges of {window!r}, of more than a hundred years")
        try:
            constant(parser.default_of(self._tables[name]))
        except Refused as refused:
            raise Refused(f"the default of the table {name!r} is {refused.why}") from None

    # -- the topic's values

    def _model(self) -> list[dict[str, Any]]:
        kind = self._kind
        if kind is None or kind is dict or kind == dict[str, Any]:
            return []
        if kind in _KINDS:
            return [{"name": "value", "kind": _KINDS[kind], "strict": True, "default": None}]
        if isinstance(kind, type) and issubclass(kind, Record):
            return [self._field(kind, name, one) for name, one in kind._fields.items()]
        raise Refused(f"values of the topic {self._agent.channel.name!r} are read as {kind}")

    def _field(self, model: type[Record], name: str, field: FieldDescriptor) -> dict[str, Any]:
        own = ("__init__", "__post_init__", "__getattribute__", "_set")
        changed = [one for one in own if getattr(model, one) is not getattr(Record, one)]
        reading = model._options.reading
        if changed or reading.coercions or hasattr(model, "__getattr__"):
            raise Refused(f"{model.__name__} makes its values in its own way")
        arms = [field.type]
        if typing.get_origin(field.type) in (typing.Union, types.UnionType):
            arms = [arm for arm in typing.get_args(field.type) if arm is not type(None)]
        if len(arms) != 1 or arms[0] not in _KINDS:
            raise Refused(f"{field.ident} is read as {getattr(field.type, '__name__', field.type)}")
        default = None
        if not field.required:
            try:
                default = constant(field.default)
            except Refused:
                raise Refused(f"the default of {field.ident} is {field.default!r}") from None
        strict = reading.validation or reading.coerce
        return {"name": name, "kind": _KINDS[arms[0]], "strict": strict, "default": default}

    def _item(self, name: str) -> list[Any]:
        if self._columns is not None:
            types = {field.name: field.dataType for field in self._columns}
            if name in types and not isinstance(types[name], _PLAIN):
                raise Refused(f"the field {name!r} is {types[name].simpleString()}", self.line)
        return ["field", name]

    # -- statements

    def _block(self, statements: Sequence[Statement]) -> list[Any]:
        return [self._step(one) for one in statements]

    def _step(self, of: Statement) -> list[Any]:
        if isinstance(of, Update):
            self.line = of.line
            if of.sign in PYTHONS:
                raise Refused(f"the operator '{of.sign}='", of.line)
            return ["update", _Name(of.table), self.expression(of.key), of.sign, self.expression(of.value)]
        if isinstance(of, If):
            return ["if", self.expression(of.test), self._block(of.then), self._block(of.otherwise)]
        if isinstance(of, Let):
            value = self.expression(of.value)
            if of.name not in self.locals:
                self.locals.append(of.name)
            return ["let", self.locals.index(of.name), value]
        assert isinstance(of, (Print, Emit))
        self.line = of.line
        if self._agent.on_error != "stop":
            raise Refused("what it prints and yields is not undone for an event that becomes a dead letter", of.line)
        if isinstance(of, Emit) and not all(isinstance(sink, (Channel, Agent)) for sink in self._agent.sinks):
            raise Refused("a sink is a function", of.line)
        if self._asks and _may_read(of):
            raise Refused("the table that held it last depends on a value that is printed or yielded here", of.line)
        self.effects.append(of)
        values = (of.value,) if isinstance(of, Emit) else of.values
        return ["tell", len(self.effects) - 1, [self.expression(one) for value in values for one in _unknown(value)]]

    # -- expressions

    def other(self, of: Expression) -> list[Any]:
        """Writes an expression that depends on the event or a table."""
        if isinstance(of, Value):
            if self._kind in _KINDS or (self._kind is None and self._is_scalar()):
                return ["value"]
            raise Refused("it uses the event's value as a whole", self.line)
        if isinstance(of, Item):
            if isinstance(of.of, Value) and isinstance(of.key, Const) and type(of.key.value) is str and self._is_dict():
                return self._item(of.key.value)
            raise Refused("it uses an item of something other than the event", self.line)
        if isinstance(of, Field):
            return self._attribute(of)
        if isinstance(of, About):
            return self._about(of)
        if isinstance(of, Read):
            return self._read(of)
        if isinstance(of, Edge):
            return ["range", of.which]
        return super().other(of)

    def _is_dict(self) -> bool:
        return self._kind is dict or self._kind == dict[str, Any] or (self._kind is None and not self._is_scalar())

    def _is_scalar(self) -> bool:
        return self._columns is not None and self._columns.names == ["value"]

    def _attribute(self, of: Field) -> list[Any]:
        kind = self._kind
        if isinstance(of.of, Value) and isinstance(kind, type) and issubclass(kind, Record) and of.name in kind._fields:
            return self._item(of.name)
        raise Refused(f"it uses an attribute of something other than a record: {of.name}", self.line)

    def _about(self, of: About) -> list[Any]:
        group = self._reading.group
        if of.what != "key":
            return ["time"]
        if group is None:
            return ["key"]
        name = group.key.field if isinstance(group.key, FieldDescriptor) else group.key
        if not isinstance(name, str):
            raise Refused("the key is what a function makes of an event", self.line)
        return self._item(name)

    def _read(self, of: Read) -> list[Any]:
        ago = 0
        if of.ago is not None:
            if not isinstance(of.ago, Const) or not isinstance(of.ago.value, (int, float, timedelta)):
                raise Refused("how long ago a table is read is not known when the program starts", self.line)
            ago = length_us(of.ago.value, "d")
        if abs(ago) > _LONGEST_US:
            raise Refused("a table is read more than a hundred years ago", self.line)
        return ["read", _Name(of.table), self.expression(of.key), "now" if of.how == "now" else "event", ago]
