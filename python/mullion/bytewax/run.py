"""Runs a dataflow from the command line: ``python -m mullion.bytewax.run module:flow``, as in ``bytewax.run``.

``module`` is a module or a file. ``flow``, the default name, is a Dataflow in it, or a function that returns one.
"""

from __future__ import annotations

import argparse
import ast
import logging
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from mullion._program.cli.loading import load_module
from mullion._program.runner import Signals
from mullion.bytewax._query.runner import run
from mullion.bytewax._translation.explain import explain
from mullion.bytewax.dataflow import Dataflow
from mullion.bytewax.recovery import NoPartitionsError, RecoveryConfig, folder_of
from mullion.errors import InvalidArgumentError, MullionError

__all__ = ["cli_main", "main"]

FAILED, REFUSED = 1, 2
"""Exit codes of a failed dataflow, and of a wrong command line (the same as argparse's)."""


def cli_main(
    flow: Dataflow,
    *,
    workers_per_process: int = 1,
    process_id: int | None = None,
    addresses: list[str] | None = None,
    epoch_interval: timedelta | None = None,
    recovery_config: RecoveryConfig | None = None,
) -> None:
    """Runs a dataflow until its sources end. On SIGINT or SIGTERM it stops after the running batch.

    ``workers_per_process`` and ``epoch_interval`` are accepted but unused: Spark has its own workers and batches.
    """
    if addresses or process_id is not None:
        raise InvalidArgumentError(
            f"process_id={process_id!r}, addresses={addresses!r}: processes of a dataflow do not talk to each other "
            "here; Spark has its own workers. Leave both out, and run it with spark-submit for a cluster."
        )
    with Signals() as signals:
        run(flow, folder_of(recovery_config), asked_to_stop=signals.to_stop)


def locate(where: str) -> Dataflow:
    """The dataflow of a reference ``module:flow``. Raises :class:`InvalidArgumentError` if there is none."""
    module_name, _, attribute = where.partition(":")
    module = _module(module_name, where)
    name, args, kwargs = _call(attribute or "flow", where)
    if not hasattr(module, name):
        flows = ", ".join(f"{module_name}:{n}" for n, value in sorted(vars(module).items()) if _is_flow(value))
        raise InvalidArgumentError(f"{where!r}: the module has no {name!r}. The dataflows in it: {flows or 'none'}.")
    flow_or_function: Any = getattr(module, name)
    if not _is_flow(flow_or_function) and callable(flow_or_function):
        try:
            flow_or_function = flow_or_function(*args, **kwargs)
        except TypeError as error:
            raise InvalidArgumentError(f"{where!r}: {name} cannot be called so: {error}.") from error
    if not _is_flow(flow_or_function):
        raise InvalidArgumentError(f"{where!r} ({type(flow_or_function).__name__}) is not a Dataflow.")
    flow: Dataflow = flow_or_function
    return flow


def _is_flow(thing: Any) -> bool:
    return isinstance(thing, Dataflow)


def _module(name: str, where: str) -> Any:
    """Imports a module by name or file. Adds its folder to the front of ``sys.path``."""
    path = Path(name)
    is_file = name.endswith(".py") or os.sep in name
    folder = path.resolve().parent if is_file else Path.cwd()
    module = path.stem if is_file else name
    while is_file and (folder / "__init__.py").exists():
        module, folder = f"{folder.name}.{module}", folder.parent
    if not module:
        raise InvalidArgumentError(
            f"{where!r} does not name a dataflow. Write module:flow, as in examples.orders:flow."
        )
    return load_module(module, folder, where)


def _call(attribute: str, where: str) -> tuple[str, list[Any], dict[str, Any]]:
    wrong = InvalidArgumentError(
        f"{where!r}: {attribute!r} is neither a name nor a call with literals. Write module:flow, or "
        "module:get_flow('orders')."
    )
    try:
        expression = ast.parse(attribute.strip(), mode="eval").body
    except SyntaxError:
        raise wrong from None
    if isinstance(expression, ast.Name):
        return expression.id, [], {}
    if not isinstance(expression, ast.Call) or not isinstance(expression.func, ast.Name):
        raise wrong
    try:
        args = [ast.literal_eval(one) for one in expression.args]
        kwargs = {str(one.arg): ast.literal_eval(one.value) for one in expression.keywords}
    except ValueError:
        raise wrong from None
    return expression.func.id, args, kwargs


def _seconds(text: str) -> timedelta:
    return timedelta(seconds=int(text))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m mullion.bytewax.run", description="Runs a dataflow on Spark.")
    parser.add_argument("import_str", metavar="module:flow", help="the dataflow, as in examples.orders:flow")
    parser.add_argument("--explain", action="store_true", help="say where each step runs, and run nothing")
    environment = os.environ.get
    parser.add_argument(
        "-r",
        "--recovery-directory",
        type=Path,
        default=environment("BYTEWAX_RECOVERY_DIRECTORY"),
        help="where state is kept [env: BYTEWAX_RECOVERY_DIRECTORY]",
    )
    parser.add_argument("-s", "--snapshot-interval", type=_seconds, help="taken as Bytewax has it, and not used")
    parser.add_argument("-b", "--backup-interval", type=_seconds, help="taken as Bytewax has it, and not used")
    parser.add_argument(
        "-w", "--workers-per-process", type=int, default=1, help="taken, and not used: Spark has its own"
    )
    parser.add_argument("-i", "--process-id", type=int, help="not supported: Spark has its own workers")
    parser.add_argument("-a", "--addresses", help="not supported: Spark has its own workers")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Runs a command line. Returns the exit code."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.WARNING, stream=sys.stderr)
    try:
        flow = locate(options.import_str)
        if options.explain:
            print(explain(flow))  # noqa: T201
            return 0
        folder = options.recovery_directory
        config = None if folder is None else RecoveryConfig(folder, options.backup_interval)
        addresses = options.addresses.split(";") if options.addresses else None
        cli_main(
            flow,
            workers_per_process=options.workers_per_process,
            process_id=options.process_id,
            addresses=addresses,
            epoch_interval=options.snapshot_interval,
            recovery_config=config,
        )
    except (InvalidArgumentError, NoPartitionsError) as refused:
        print(f"mullion: {refused}", file=sys.stderr)  # noqa: T201
        return REFUSED
    except MullionError as failed:
        print(f"mullion: {failed}", file=sys.stderr)  # noqa: T201
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
