"""An aggregate as plain JSON, for checkpoints: the functions that build it, and their arguments.

::

    Sum(fn.col('a') + 1)   <->   {"call": "Sum", "args": [{"call": "+", "args": [{"call": "fn.col", ...}, 1]}]}

The writer parses the aggregate's ``repr``. The reader looks calls up in a table of the supported ones, and never
evaluates text from a checkpoint.
"""

from __future__ import annotations

import ast
import datetime
import decimal
import operator
import reprlib
from collections.abc import Callable
from typing import Any, Final

from mullion.errors import InvalidArgumentError
from mullion.turbine import aggregates, functions
from mullion.turbine.aggregates import Aggregate, Multi
from mullion.turbine.functions import Expression

_OPERATORS: Final[dict[type[ast.AST], tuple[str, Callable[..., Any]]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.Mod: ("%", operator.mod),
    ast.BitAnd: ("&", operator.and_),
    ast.BitOr: ("|", operator.or_),
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.USub: ("negative", operator.neg),
    ast.Invert: ("~", operator.invert),
}

_OF_EXPRESSIONS: Final = dict(_OPERATORS.values())
"""The operators by their signs. They accept expressions only."""

_CALLS: Final[dict[str, Callable[..., Any]]] = {
    **{name: getattr(aggregates, name) for name in aggregates.__all__ if name != "Aggregate"},
    **{f"fn.{name}": getattr(functions, name) for name in functions.__all__ if name != "Expression"},
    "float": float,
    "Decimal": decimal.Decimal,
    "datetime.datetime": datetime.datetime,
    "datetime.date": datetime.date,
    "datetime.timedelta": datetime.timedelta,
    "datetime.timezone": datetime.timezone,
}

_NAMES: Final[dict[str, Any]] = {"datetime.timezone.utc": datetime.UTC}

_OTHERWISE: Final = "otherwise"


def to_json(value: Aggregate | Multi) -> Any:
    """The aggregate as values for ``json``. Raises :class:`InvalidArgumentError` if it has an unsupported literal."""
    return of_text(repr(value))


def of_text(text: str) -> Any:
    """The same for the ``repr`` of an aggregate, which is parsed but not evaluated."""
    try:
        return _node(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _not_one(text) from None


def from_json(node: Any) -> Aggregate | Multi:
    """The aggregate that :func:`to_json` wrote; raises :class:`InvalidArgumentError` for any other input."""
    try:
        aggregate = _value_of(node)
    except (InvalidArgumentError, RecursionError, TypeError, ValueError, ArithmeticError, KeyError):
        raise _not_one(node) from None
    if not isinstance(aggregate, (Aggregate, Multi)):
        raise _not_one(node)
    return aggregate


def _node(tree: ast.AST) -> Any:
    match tree:
        case ast.Constant(value=bytes(data)):
            return {"bytes": data.hex()}
        case ast.Constant(value=bool() | int() | float() | str() | None as plain):
            return plain
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_node(each) for each in elements]
        case ast.Call(func=ast.Attribute(value=ast.Call() as of, attr="otherwise"), args=args, keywords=[]):
            return {"call": _OTHERWISE, "args": [_node(of), *map(_node, args)]}
        case ast.Call(func=function, args=args, keywords=named):
            called = {"call": ast.unparse(function), "args": [_node(each) for each in args]}
            return called | ({"named": {str(each.arg): _node(each.value) for each in named}} if named else {})
        case ast.BinOp(left=left, op=sign, right=right) | ast.Compare(left=left, ops=[sign], comparators=[right]):
            return {"call": _sign(sign), "args": [_node(left), _node(right)]}
        case ast.UnaryOp(op=sign, operand=of):
            return {"call": _sign(sign), "args": [_node(of)]}
        case ast.Attribute():
            return {"name": ast.unparse(tree)}
    raise ValueError(ast.dump(tree))


def _sign(sign: ast.AST) -> str:
    if type(sign) not in _OPERATORS:
        raise ValueError(ast.dump(sign))
    return _OPERATORS[type(sign)][0]


def _value_of(node: Any) -> Any:
    match node:
        case bool() | int() | float() | str() | None:
            return node
        case list():
            return [_value_of(each) for each in node]
        case {"bytes": str(data)}:
            return bytes.fromhex(data)
        case {"name": str(name)}:
            return _NAMES[name]
        case {"call": str(name), "args": list(arguments)}:
            args = [_value_of(each) for each in arguments]
            named = {key: _value_of(value) for key, value in node.get("named", {}).items()}
            if name == _OTHERWISE:
                when, value = args
                if not isinstance(when, functions.When):
                    raise ValueError(name)
                return when.otherwise(value)
            if name in _OF_EXPRESSIONS:
                # An operator would compute plain values immediately.
                if not any(isinstance(each, Expression) for each in args):
                    raise ValueError(name)
                return _OF_EXPRESSIONS[name](*args)
            return _CALLS[name](*args, **named)
    raise ValueError(node)


def _not_one(what: object) -> InvalidArgumentError:
    return InvalidArgumentError(f"{reprlib.repr(what)} is not what an aggregate is kept as.")
