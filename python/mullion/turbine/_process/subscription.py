"""A subscription: one class under ``@app.subscribe``, its input topic, its windows, and the topics of its outputs."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from mullion._program.report import shown
from mullion._pyfunction import methods
from mullion._pyfunction.methods import Place
from mullion.errors import InvalidArgumentError
from mullion.turbine._process import source
from mullion.turbine._process.callbacks import CLOSE, EARLY, PROCESS
from mullion.turbine._process.source import Process
from mullion.turbine._spec import called
from mullion.turbine.windowing import BUILDING, TurbineWindow

ON_ERROR: Final = ("stop", "skip")


@final
@dataclass(frozen=True)
class Options:
    """The arguments of ``@app.subscribe``."""

    topic: str
    publish_to: Mapping[str, str]
    partition_key: str | None
    parallelism: int | None
    with_kafka_timestamp: bool
    schema: Any
    on_error: str
    dead_letter: str | None
    together: bool


@final
class Subscription:
    """A class whose ``process`` receives the batches of a topic, and the windows that its ``__init__`` makes."""

    def __init__(self, options: Options, kind: type) -> None:
        self.options = options
        self.name = kind.__name__
        self.kind = kind
        self.windows: dict[str, TurbineWindow] = {}
        self.instance: Any = object.__new__(kind)
        token = BUILDING.set((self.instance, self))
        try:
            self.instance.__init__()
        finally:
            BUILDING.reset(token)
        self.function = source.require_process(self.instance)
        self.makes_windows = source.recovery_of(self.instance) is not None
        """True if ``process`` may make windows from data."""
        if not self.makes_windows:
            # The names of windows that are made from data are not known yet.
            _require_published(options.publish_to, self.windows)
        self.process: Process = source.read(self.instance, self.function, self.windows.values())
        self.state = self._state_read_at()
        """The function that reads the state, and the line; ``None`` if none does."""
        self.job = f"{self.name}.state" if self.state is not None else f"{self.name}.process"
        """The name of the query that is not the query of a window."""

    @property
    def partition_key(self) -> str | None:
        """The column by which its rows are sharded."""
        return self.options.partition_key

    @property
    def is_published(self) -> bool:
        """True if ``process`` may publish: the batches that it returns, or dead letters of failed calls."""
        return self.process.returns or (self.options.dead_letter is not None and self.process.python is not None)

    def add(self, window: TurbineWindow) -> None:
        """Registers a window; raises an error if its name is in use."""
        if window.name in self.windows:
            raise InvalidArgumentError(
                f"{self.name} makes two windows of the name {window.name!r}. State is kept under the name: give each "
                "its own."
            )
        self.windows[window.name] = window

    def topic_of(self, kind: str, of: str) -> str | None:
        """The topic for results of ``process`` or of a window's callback; ``None`` if there is none."""
        return topic_of(self.options.publish_to, kind, of)

    def changes_of(self, function: Any) -> str:
        """A description of the attributes of ``self`` that a function changes, with a fix; empty if there are none."""
        places = methods.changes(function, makes_windows=self.makes_windows)
        if not places:
            return ""
        lines = ", ".join(dict.fromkeys(f"{place.says} ({shown(place.file)}:{place.line})" for place in places))
        return f"attributes that it sets on self are lost after the batch: {lines}. Keep such values in state"

    def _state_read_at(self) -> tuple[str, Place] | None:
        if self.process.state is not None:
            return "process", self.process.state
        for window in self.windows.values():
            callbacks = window.spec.callbacks
            for function in (callbacks.early, callbacks.close):
                place = None if function is None else source.reads(function, 0)
                if function is not None and place is not None:
                    return called(function), place
        return None


def options_of(
    topic: object,
    publish_to: object,
    partition_key: object,
    parallelism: object,
    with_kafka_timestamp: object,
    schema: object,
    on_error: object,
    dead_letter: object,
    together: object,
) -> Options:
    """The checked arguments of ``@app.subscribe``."""
    if isinstance(topic, type) or callable(topic):
        raise InvalidArgumentError(
            "@app.subscribe needs the topic that it subscribes to. Write @app.subscribe('orders', "
            "publish_to='revenue')."
        )
    _require_name("topic", topic, "'orders'")
    if partition_key is not None:
        _require_name("partition_key", partition_key, "'customer'")
    if dead_letter is not None:
        _require_name("dead_letter", dead_letter, "'failed'")
    if parallelism is not None and (
        isinstance(parallelism, bool) or not isinstance(parallelism, int) or parallelism < 1
    ):
        raise InvalidArgumentError(
            f"parallelism={parallelism!r} is not a number of shards above 0. Write, for instance, parallelism=4."
        )
    if not isinstance(with_kafka_timestamp, bool):
        raise InvalidArgumentError(f"with_kafka_timestamp={with_kafka_timestamp!r} is neither True nor False.")
    if not isinstance(together, bool):
        raise InvalidArgumentError(f"together={together!r} is neither True nor False.")
    if on_error not in ON_ERROR:
        raise InvalidArgumentError(
            f"on_error={on_error!r} is not a reaction to a callback that fails. Use 'stop', which fails the query (it "
            "resumes from the checkpoint after the fix), or 'skip', which leaves the pane out and counts it."
        )
    if dead_letter is not None and on_error != "skip":
        raise InvalidArgumentError(
            f"dead_letter={dead_letter!r} is the topic for panes that on_error='skip' leaves out. Add on_error='skip'."
        )
    assert isinstance(topic, str)
    assert isinstance(on_error, str)
    return Options(
        topic,
        _publish_to(publish_to),
        partition_key,  # type: ignore[arg-type]
        parallelism,
        with_kafka_timestamp,
        schema,
        on_error,
        dead_letter,  # type: ignore[arg-type]
        together,
    )


def named_topics(publish_to: object, dead_letter: object) -> Iterator[tuple[str, object]]:
    """The topics that ``@app.subscribe`` may write to, each with the name of its argument."""
    if isinstance(publish_to, Mapping):
        yield from ((f"publish_to[{key!r}]", topic) for key, topic in publish_to.items())
    elif publish_to is not None:
        yield "publish_to", publish_to
    if dead_letter is not None:
        yield "dead_letter", dead_letter


def topic_of(topics: Mapping[str, str], kind: str, of: str) -> str | None:
    """The topic of a callback of the window ``of``: the window's own, or else that of all such callbacks."""
    if kind == PROCESS or of in _CALLBACKS:
        return topics.get(kind)
    return topics.get(of, topics.get(kind))


_CALLBACKS: Final = (PROCESS, EARLY, CLOSE)


def _publish_to(publish_to: object) -> dict[str, str]:
    if publish_to is None:
        return {}
    if isinstance(publish_to, str) and publish_to:
        return dict.fromkeys(_CALLBACKS, publish_to)
    if not isinstance(publish_to, Mapping):
        raise InvalidArgumentError(
            f"publish_to={publish_to!r} is neither a topic nor a dict. Write publish_to='revenue', or "
            "publish_to={'early': 'live', 'close': 'ledger'}."
        )
    for callback, topic in publish_to.items():
        _require_name(f"publish_to[{callback!r}]", topic, "'revenue'")
    return dict(publish_to)


def _require_published(publish_to: Mapping[str, str], windows: Mapping[str, object]) -> None:
    for key in publish_to:
        if key not in _CALLBACKS and key not in windows:
            meant = difflib.get_close_matches(str(key), [*_CALLBACKS, *windows], 1)
            of = f", and the windows {', '.join(map(repr, windows))}" if windows else ""
            raise InvalidArgumentError(
                f"publish_to= has the key {key!r}. Its keys are 'process', 'early' and 'close'{of}"
                f"{f': did you mean {meant[0]!r}?' if meant else '.'}"
            )


def _require_name(parameter: str, value: object, example: str) -> None:
    if not isinstance(value, str) or not value:
        raise InvalidArgumentError(
            f"{parameter}={value!r} ({type(value).__name__}) is not a name. Write, for instance, {parameter}={example}."
        )
