"""The location of a dataflow's state, as in ``bytewax.recovery``: a folder of Spark checkpoints."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from mullion.errors import InvalidArgumentError

__all__ = [
    "InconsistentPartitionsError",
    "MissingPartitionsError",
    "NoPartitionsError",
    "RecoveryConfig",
    "init_db_dir",
]


class InconsistentPartitionsError(ValueError):
    """Never raised, because a checkpoint belongs to one batch. It exists for programs that catch it."""


class MissingPartitionsError(FileNotFoundError):
    """Never raised, because Spark checks its checkpoints. It exists for programs that catch it."""


class NoPartitionsError(FileNotFoundError):
    """The error for a missing folder of a :class:`RecoveryConfig`."""


@dataclass(frozen=True)
class RecoveryConfig:
    """Keeps state in ``db_dir``, with a folder for each dataflow.

    ``backup_interval`` is accepted but unused: Spark retains the state of its last batches.
    """

    db_dir: str | os.PathLike[str]
    backup_interval: timedelta | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.db_dir, (str, os.PathLike)):
            raise InvalidArgumentError(
                f"db_dir={self.db_dir!r} ({type(self.db_dir).__name__}) is not the path of a folder."
            )
        if self.backup_interval is not None and not isinstance(self.backup_interval, timedelta):
            raise InvalidArgumentError(f"backup_interval={self.backup_interval!r} is not a timedelta.")


def init_db_dir(db_dir: str | os.PathLike[str], count: int) -> None:
    """Creates the folder. ``count`` is accepted but unused, because Spark partitions the state."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InvalidArgumentError(f"count={count!r} is not a number of partitions, a whole number from 1 on.")
    Path(db_dir).mkdir(parents=True, exist_ok=True)


def folder_of(config: RecoveryConfig | None) -> Path | None:
    """The folder of a configuration. Raises :class:`NoPartitionsError` if it does not exist."""
    if config is None:
        return None
    if not isinstance(config, RecoveryConfig):
        raise InvalidArgumentError(
            f"recovery_config={config!r} ({type(config).__name__}) is not a RecoveryConfig. Write "
            "RecoveryConfig('folder')."
        )
    folder = Path(config.db_dir)
    if not folder.is_dir():
        raise NoPartitionsError(
            f"There is no folder {str(folder)!r} to keep state in. Make it with "
            f"python -m mullion.bytewax.recovery {folder} 1."
        )
    return folder


def main(arguments: list[str] | None = None) -> None:
    """Creates the folder that is an argument of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m mullion.bytewax.recovery", description="Makes a folder for the state of dataflows."
    )
    parser.add_argument("db_dir", type=Path, help="the folder")
    parser.add_argument("part_count", type=int, help="taken as Bytewax has it, and not used")
    options = parser.parse_args(arguments)
    init_db_dir(options.db_dir, options.part_count)


if __name__ == "__main__":
    main()
