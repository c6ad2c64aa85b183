"""The names of ``faust.web``: pages are accepted and not served, so that a program with pages runs its agents.

Read a table from any process with ``app.table(name).read()``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from mullion.faust._public_names.unsupported import MissingPartError, absent

F = TypeVar("F", bound=Callable[..., Any])

_NOT_SERVED = "Pages are not served: app.table(name).read() reads a table, from any process."


class Web:
    """A web server, for annotations."""


class Request:
    """A request of a page, for annotations."""


class Response:
    """The response of a page, for annotations."""


class View:
    """The base of a page with methods for requests. No method is called."""

    json = absent("View.json", _NOT_SERVED)
    text = absent("View.text", _NOT_SERVED)
    html = absent("View.html", _NOT_SERVED)
    bytes = absent("View.bytes", _NOT_SERVED)


class Blueprint:
    """Pages that several programs share. They are accepted and not served."""

    def __init__(self, name: str, *, url_prefix: str | None = None) -> None:
        self.name = name
        self.url_prefix = url_prefix

    def route(self, uri: str, **accepted: Any) -> Callable[[F], F]:
        """Accepts a page."""
        return lambda function: function

    def static(self, uri: str, file_or_directory: Any, *, name: str | None = None) -> None:
        """Accepts files."""

    def cache(self, *arguments: Any, **accepted: Any) -> _Cache:
        """Accepts a cache of pages."""
        return _Cache()

    def register(self, app: Any, *, url_prefix: str | None = None) -> None:
        """Accepts the pages for a program, and records that they are not served."""
        app.note(f"the pages of the blueprint {self.name!r}: no pages are served")


class _Cache:
    def view(self, *arguments: Any, **accepted: Any) -> Callable[[F], F]:
        return lambda function: function


class WebError(Exception):
    """An error of a page."""


class NotFound(WebError):  # noqa: N818
    """The error for a page without content."""


class BlueprintManager:
    """The blueprints of a program."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def add(self, prefix: str, blueprint: Any) -> None:
        """Accepts a blueprint, and records that its pages are not served."""
        self._app.note(f"the pages under {prefix!r}: no pages are served")


class AppWeb:
    """The value of ``app.web``: accepts pages and serves none."""

    def __init__(self, app: Any) -> None:
        self.blueprints = BlueprintManager(app)

    def __getattr__(self, name: str) -> NoReturn:
        raise MissingPartError(f"app.web.{name} is not supported. {_NOT_SERVED}")


# Faust's module is a package, whose modules :mod:`mullion.faust._public_names.modules` finds.
__path__: list[str] = []


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # Names of Faust's module that are elsewhere here. Type checkers see the real names only.
        from mullion.faust._public_names.modules import named

        return named("web", name)


__all__ = ["AppWeb", "Blueprint", "NotFound", "Request", "Response", "View", "Web", "WebError"]
