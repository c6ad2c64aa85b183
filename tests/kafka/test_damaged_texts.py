"""Messages that are almost JSON: whatever bytes come, they are a value as Python's own reader has it, or an error."""

from __future__ import annotations

import json as pythons
import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mullion._util.codec import json

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A text of JSON with some bytes cut, doubled or replaced by others."""
    text = pythons.dumps(draw(values), ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
    at, until = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
    return text[:at] + draw(st.binary(max_size=4)) + text[draw(st.sampled_from([at, until])) :]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other


@settings(max_examples=400)
@given(damaged() | st.binary(max_size=40))
def test_bytes_are_what_pythons_reader_has_or_an_error(text: bytes) -> None:
    try:
        got = json.read(text)
    except ValueError:
        return
    assert same(got, pythons.loads(text.decode()))
