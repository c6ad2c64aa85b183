"""Tracebacks of Python workers and of functions of ``foreachBatch``, which reach the driver as text."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Sequence

from mullion._util.user_code import is_user_code

_FRAME = re.compile(r'^\s+File "(.+)", line (\d+), in .+$')
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '(\w+)")
_CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
_BRIDGE = re.compile(r"^py4j\.protocol\.Py4JJavaError: An error occurred while calling [^\n]*\n: ", re.MULTILINE)
_CAUSED_BY = re.compile(r"^Caused by: ", re.MULTILINE)
_JAVA_FRAMES = re.compile(r"^[ \t]+(?:at [\w.$/<>]+\(|\.\.\. \d+ more)", re.MULTILINE)
_LOST_TASK = re.compile(r"most recent failure: Lost task [^\n]*?\(TID [^\n]*?\): ")
_DATA_LOSS = re.compile(r"Some data may have been lost.*?failOnDataLoss\W+to\W+false", re.DOTALL)
_BROKERS_OPTION = (
    " For a topic of mullion.topics this is options={'failOnDataLoss': 'false'} of the broker: the query continues "
    "with the oldest rows that Kafka has"
)
_WORKER_EXIT = re.compile(r"Python worker exited unexpectedly|The Python worker of (\S+) ended")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+;?\s*(?=$|, at )")
_PYSPARKS = re.compile(r"^pyspark\.errors\.exceptions\.\w+\.")


def last_raised(text: str) -> str:
    """The last of the errors in a text that were raised while another one was handled."""
    for chained in _CHAINED:
        text = text.rpartition(chained)[2]
    return text


def root_cause(text: str) -> str:
    """The innermost error in a text: below the bridge to the JVM, if a function of ``foreachBatch`` failed there."""
    text = last_raised(text)
    crossings = list(_BRIDGE.finditer(text))
    if not crossings:
        return text
    trace = text[crossings[-1].end() :]
    causes = [_JAVA_FRAMES.split(cause, maxsplit=1)[0] for cause in _CAUSED_BY.split(trace)]
    # A cause that does not travel to the driver is in Spark's message only.
    return _LOST_TASK.split(most_telling(causes))[-1].strip()


def most_telling(causes: Sequence[str]) -> str:
    """The message to show of a chain of causes: the innermost one, or the one that has the fix."""
    # The cause of a worker's exit is only the end of a stream.
    exits = (cause for cause in causes if exited_worker(cause) is not None)
    return next((cause for cause in reversed(causes) if _DATA_LOSS.search(cause)), next(exits, causes[-1]))


def exited_worker(text: str) -> str | None:
    """The function whose Python worker ended, by a task's message: empty if unknown, ``None`` for other messages."""
    match = _WORKER_EXIT.search(text)
    return None if match is None else match[1] or ""


def in_one_line(text: str) -> str:
    """The message of an error: the last error of a traceback with its place, or the first line."""
    lost = lost_data(text)
    if lost is not None:
        return lost
    line = raised_in_worker(text) or next(iter(text.strip().splitlines()), "")
    return _SQLSTATE.sub("", _PYSPARKS.sub("", line)).rstrip(".")


def lost_data(text: str) -> str | None:
    """Spark's message about rows that Kafka has deleted, with the option that accepts the loss."""
    message = _DATA_LOSS.search(text)
    return f"{' '.join(message[0].split())}.{_BROKERS_OPTION}" if message else None


def raised_in_worker(text: str) -> str | None:
    """The last line of a traceback in a text, and the last line of user code in it.

    A worker that cannot import Mullion has a special message: its Python is not that of the program.
    """
    lines = text.splitlines()
    frames = [(index, frame) for index, line in enumerate(lines) if (frame := _FRAME.match(line))]
    if not frames:
        return None
    last = next((line for line in lines[frames[-1][0] + 1 :] if line and not line[0].isspace()), None)
    missing = _NO_MODULE.search(last) if last is not None else None
    if missing is not None and _is_here(missing[1]):
        return (
            f"{last}: Spark starts its workers with a Python that {missing[1]} is not installed for. Set "
            f"PYSPARK_PYTHON to one that has it, such as {sys.executable}, before the session starts."
        )
    own = [frame for _, frame in frames if is_user_code(frame[1])]
    return f"{last}, at {own[-1][1]}:{own[-1][2]}" if last and own else last


def _is_here(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False
