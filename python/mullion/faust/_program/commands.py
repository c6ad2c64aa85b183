"""Commands of a program: functions called from the command line, as in ``python site.py produce --n 10``."""

from __future__ import annotations

import argparse
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

from mullion.errors import InvalidArgumentError

_TAKEN: Final = frozenset(
    (
        *("type", "default", "required", "help", "is_flag", "multiple", "nargs", "metavar", "envvar", "show_default"),
        *("count", "flag_value", "hidden", "prompt", "show_envvar", "show_choices"),
    )
)


@final
@dataclass(frozen=True)
class Option:
    """A parameter of a command, positional unless ``by_name``. ``arguments`` holds click's arguments for it."""

    names: tuple[str, ...]
    arguments: dict[str, Any] = field(default_factory=dict)
    by_name: bool = True

    def __post_init__(self) -> None:
        unknown = sorted(set(self.arguments) - _TAKEN)
        if unknown:
            raise InvalidArgumentError(
                f"{unknown[0]!r} of the option {self.names!r} is not supported. There are: {', '.join(sorted(_TAKEN))}."
            )

    @property
    def parameter(self) -> str:
        """The name of the function's parameter."""
        plain = [name for name in self.names if not name.startswith("-")]
        longest = max(self.names, key=lambda name: (name.startswith("--"), len(name)))
        return plain[0] if plain else longest.lstrip("-").partition("/")[0].replace("-", "_")

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        arguments = self.arguments
        about: dict[str, Any] = {"help": arguments.get("help")}
        default = arguments.get("default")
        if arguments.get("envvar"):
            default = os.environ.get(arguments["envvar"], default)
        flags = [part for name in self.names if name.startswith("-") for part in name.split("/")]
        kind = arguments.get("type") or (type(default) if isinstance(default, (int, float)) else None)
        if not self.by_name:
            optional = arguments.get("required") is False or "default" in arguments
            nargs = {-1: "*"}.get(arguments.get("nargs", 1), arguments.get("nargs", 1))
            about["nargs"] = nargs if nargs != 1 else "?" if optional else None
            parser.add_argument(self.parameter, type=_kind(kind), default=default, **about)
        elif arguments.get("is_flag") or kind is bool or len(flags) > len(self.names):
            about["action"] = argparse.BooleanOptionalAction if "/" in "".join(self.names) else "store_true"
            flags = [flag for flag in flags if not flag.startswith("--no-")]
            parser.add_argument(*flags, dest=self.parameter, default=bool(default), **about)
        elif arguments.get("count"):
            parser.add_argument(*flags, dest=self.parameter, action="count", default=default or 0, **about)
        else:
            about["required"] = bool(arguments.get("required")) and default is None
            about["action"] = "append" if arguments.get("multiple") else "store"
            parser.add_argument(*flags, dest=self.parameter, type=_kind(kind), default=default, **about)


def _kind(kind: Any) -> Callable[[str], Any]:
    """Returns the conversion from text: a type, or one of click's types."""
    choices = getattr(kind, "choices", None)
    if choices is not None:
        return lambda text: _chosen(text, [str(one) for one in choices])
    if kind is None or not callable(kind):
        return str
    return kind if inspect.isclass(kind) else lambda text: kind(text)


def _chosen(text: str, choices: Sequence[str]) -> str:
    if text not in choices:
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(choices)}")
    return text


@final
class Command:
    def __init__(self, function: Callable[..., Any], options: Sequence[Option]) -> None:
        self.function = function
        self.name = getattr(function, "__name__", repr(function)).replace("_", "-")
        for option in options:
            if not isinstance(option, Option):
                raise InvalidArgumentError(
                    f"{option!r} is not an option of the command {self.name!r}. Write @app.command(option('--n', "
                    "type=int)), with mullion.faust.cli.option."
                )
        self.options = tuple(options)

    def calling(self, app: Any, arguments: Sequence[str]) -> Callable[[], Any]:
        """Returns the call for the arguments; exits the process if they are invalid, as argparse does."""
        parser = argparse.ArgumentParser(prog=self.name, description=inspect.getdoc(self.function))
        for option in self.options:
            option.add_to(parser)
        values = vars(parser.parse_args(list(arguments)))
        if not inspect.signature(self.function).parameters:
            return self.function
        return _Bound(self.function, Context(app), values)


@final
class Context:
    """The ``self`` of a command's function: the App, and methods that print."""

    def __init__(self, app: Any) -> None:
        self.app = app

    def say(self, message: object, **_: Any) -> None:
        print(message)  # noqa: T201

    carp = say


@final
class _Bound:
    def __init__(self, function: Callable[..., Any], context: Context, values: dict[str, Any]) -> None:
        self._function = function
        self._context = context
        self._values = values
        self.__name__ = function.__name__

    def __call__(self) -> Any:
        return self._function(self._context, **self._values)
