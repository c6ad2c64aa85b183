"""The treatment of a checkpoint whose query has changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, final, get_args

from mullion._util.checks import require_one_of
from mullion._util.signatures import explained
from mullion.windows._spec import hold

NewAggregates: TypeAlias = Literal["reject", "from now"]
"""The treatment of aggregates that open panes of a checkpoint do not have."""

OtherWindow: TypeAlias = Literal["reject", "drain", "drop"]
"""The treatment of open panes whose window the query no longer has."""


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Upgrade:
    """The treatment of the open panes of a checkpoint whose query has changed.

    - ``new_aggregates``: the treatment of an aggregate that the open panes do not have. ``"reject"``: the query does
      not start. ``"from now"``: in those panes the aggregate is null until their first new row, and covers the rows
      from that one on. The result has one more column, ``incomplete``, which lists the names of the aggregates that
      have not seen all rows of their pane. A checkpoint that once continued with ``"from now"`` needs it from then on.
      Not with ``.collect()``, ``Global.split`` and ``dedupe_by``.
    - ``window``: the treatment of a checkpoint that has another window: another size, slide, gap or offset, or sessions
      in place of a grid. ``"reject"``: the query does not start. ``"drain"``: the open panes of that window continue
      until they close by their own rules, and accept the rows before a boundary; rows from the boundary on enter this
      window. The boundary is after all rows that the query has seen: :func:`mullion.compare` shows when. Both windows
      are of time. Not with ``Early(each_row=True)``, ``PerKey()``, ``.collect()`` and ``empty="emit"``. ``"drop"``, for
      windows in :func:`mullion.together`: if another window of the checkpoint is gone, its open panes are dropped
      without a firing.

    >>> Upgrade(new_aggregates="from now")
    Upgrade(new_aggregates='from now')

    Raises :class:`InvalidArgumentError` for any other value.
    """

    new_aggregates: NewAggregates
    window: OtherWindow

    @explained("Upgrade(new_aggregates='from now')", name="Upgrade")
    def __init__(self, new_aggregates: NewAggregates = "reject", window: OtherWindow = "reject") -> None:
        require_one_of("new_aggregates", new_aggregates, get_args(NewAggregates))
        require_one_of("window", window, get_args(OtherWindow))
        hold(self, new_aggregates=new_aggregates, window=window)

    def __repr__(self) -> str:
        parts = {"new_aggregates": self.new_aggregates, "window": self.window}
        return f"Upgrade({', '.join(f'{name}={value!r}' for name, value in parts.items() if value != 'reject')})"
