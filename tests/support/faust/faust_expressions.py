"""Random expressions in the body of a Faust agent, as text."""

from __future__ import annotations

import random


class Expressions:
    """Writes expressions over an event, its key, and the tables of a program."""

    topic: str
    _chance: random.Random
    _simple: bool
    """True for expressions that run in the JVM and in the shards of a field."""
    _scalar: bool
    """True if values are neither records nor dicts."""
    _record: bool
    _fresh: bool
    """True if no name is set yet."""
    _carries: bool
    _yields: bool
    _grouped: str
    """The field that groups the stream."""
    _e: str
    """The event's variable."""
    _event_key: str
    """The expression for the event's key."""
    _ways: dict[str, str]
    """The expression for each table."""
    _windowed: dict[str, bool]

    def _field(self, name: str) -> str:
        if self._record:
            return f"{self._e}.{name}"
        return f'{self._e}["{name}"]' if self._simple or self._chance.random() < 0.8 else f'{self._e}.get("{name}")'

    def _key(self) -> str:
        one = self._chance
        if self._grouped and one.random() < 0.97:
            # The only key that is accepted; other keys are rejected.
            own = f"{self._field('k')}.upper()" if self._grouped == "upper" else self._field(self._grouped)
            return one.choice([own, own, own if self._event_key == "None" else self._event_key])
        if one.random() < (0.93 if self._simple else 0.5):
            if self._scalar:
                return self._e
            return one.choices(
                [self._field("k"), "k", self._event_key if self._event_key != "None" else self._field("k")], [6, 3, 2]
            )[0]
        choices = [self._text(1), self._text(2), "'all'", f"({self._text(0)}, 'p')"]
        if not self._scalar:
            choices += [self._field("id"), self._field("id"), self._field("s"), f"str({self._field('id')})"]
            choices += [f"({self._field('k')}, str({self._field('id')}))", f"{self._field('note')} or 'none'"]
        if self.topic == "plain":
            choices += [f"{self._e}.upper", f"{self._e}.named()"] * 2
        if self.topic == "default":
            choices += [f"{self._e}.country"] * 4
        if self._event_key != "None":
            choices += [self._event_key, f"{self._event_key} or 'none'"] * 3
        return one.choice(choices)

    def _text(self, depth: int) -> str:
        one = self._chance
        own = self._field("k") if not self._scalar else self._e if self.topic == "texts" else f"str({self._e})"
        if depth == 0 or one.random() < 0.5:
            return own if self._fresh else one.choice([own, own, "k"])
        inner = self._text(depth - 1)
        choices = [
            f"{inner}.upper()",
            f"upper({inner})",
            f"f'{{{inner}}}'",
            f"({inner} or 'none')",
            f"({inner} if {self._test(0)} else 'x')",
            f"{inner}[:1]",
        ]
        if not self._scalar and not self._record:
            choices += [f"item({self._e}, 'k')"]
        return one.choice(choices)

    def _number(self, depth: int) -> str:
        one = self._chance
        own = self._field("n") if not self._scalar else f"len({self._e})" if self.topic == "texts" else self._e
        simple = ["1", "2", own, own, "0.5", *([] if self._fresh else ["m"]), *(["y"] if self._carries else [])]
        if not self._scalar:
            simple.append(self._field("s"))
        if depth == 0 or one.random() < 0.4:
            return one.choice(simple)
        inner, other = self._number(depth - 1), self._number(depth - 1)
        choices = [
            f"({inner} {one.choice('+-')} {other})",
            f"({inner} * 2)",
            f"({inner} {one.choice(['//', '%', '/'])} {one.choice(['2', '3', own])})",
            f"({inner} if {self._test(0)} else {other})",
            f"max({inner}, {other})",
            f"abs({inner})",
            f"int({inner})",
            f"len({self._text(0)})",
        ]
        if not self._simple:
            choices += [
                f"twice({inner})",
                f"sum([{inner}, {other}])",
                f"sum(x for x in ({inner}, {other}))",
                f"(lambda m: m + 1)({inner})",
                f"sum([m for m in range(3)]) + {inner}",
                f"(x := {inner})",
                f"await later({inner})",
            ]
        if self._fresh:
            return one.choice(choices)
        table = one.choice(list(self._ways))
        way = self._ways[table]
        if self._windowed[table]:
            how = one.choice(["current()", "value()", "now()", "delta(10)"])
            choices += [f"{way}[{self._key()}].{how}"] * (3 if self._yields else 1)
        else:
            choices += [f"{way}[{self._key()}]", f"{way}.get({self._key()}, 0)"]
        return one.choice(choices)

    def _test(self, depth: int) -> str:
        one = self._chance
        number = self._number(min(depth, 1))
        choices = [
            f"{number} > 2",
            f"{number} == 1",
            f"{number} < {self._number(0)}",
            f"{self._text(0)} != 'b'",
            f"'a' in {self._text(0)}",
        ]
        if not self._scalar:
            choices += [
                self._field("on"),
                f"not {self._field('on')}",
                f"{self._field('note')} is None",
                f"{self._field('n')} > 3 and {self._field('on')}",
            ]
        if not self._simple:
            choices += [f"{self._text(0)} in ('a', 'b')", f"(q := {self._text(0)}) == 'a'", f"0 < {number} < 5"]
        return one.choice(choices)
