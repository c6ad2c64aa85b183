"""Conversion of errors of the JAR and of tasks, at the calls that raise them, with the JVM's trace."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.sql import DataFrame

from mullion import errors
from mullion._bridge.jvm.objects import internal
from mullion._bridge.query_errors import (
    FAILED_QUERY,
    FAILED_TASK,
    OPERATOR,
    exit_of_action,
    foreach_batch_failure,
    function_failure,
    is_of_windows,
    other_operators,
    task_failure,
)
from mullion._util.tracebacks import exited_worker, last_raised, most_telling
from mullion.errors import (
    IncompatibleStateError,
    MullionError,
    QueryFailedError,
    TaskFailedError,
    UnsupportedError,
    error_of,
)

if TYPE_CHECKING:
    from pyspark.errors import StreamingQueryException
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

try:
    from py4j.protocol import Py4JError

    BridgeError = Py4JError
    """The base class of the bridge's errors."""
except ImportError:
    # A client of Spark Connect may lack py4j.
    class NoBridgeError(Exception):
        """Never raised."""

    BridgeError = NoBridgeError


EXCEPTION: Final = "dev.mullion.MullionException"

_CALLBACK: Final = "py4j.Py4JException"
_TRACEBACK: Final = "Traceback (most recent call last):\n"
_OURS: Final = re.compile(r"mullion\.errors\.(\w+): (.*)")

_Error = TypeVar("_Error", bound=MullionError)

_FAILED_STAGE: Final = re.compile(r"Job aborted due to stage failure: .*? in stage (\d+)\.\d+ ")

_SOURCES: Final = re.compile(
    r".*There are \[(\d+)\] sources in the checkpoint offsets and now there are \[(\d+)\]", re.S
)


def traced(error: _Error, original: BaseException) -> _Error:
    """The error with the JVM's stack trace of the one that it replaces."""
    if isinstance(original, MullionError):
        error.jvm_trace = "\n\n".join(filter(None, (error.jvm_trace, original.jvm_trace)))
        return error
    description, trace = getattr(original, "_desc", None), getattr(original, "_stackTrace", None)
    if trace is None:
        trace = str(original)
    elif description and description not in trace:
        # For a query that has ended PySpark only has the frames.
        trace = f"{description}\n{trace}"
    error.jvm_trace = "\n\n".join(filter(None, (error.jvm_trace, trace)))
    return error


def error_in(exception: Any) -> MullionError | None:
    """Mullion's error in a Java exception or its causes, or ``None`` if there is none."""
    for cause in _causes(exception):
        name = cause.getClass().getName()
        if name == _CALLBACK:
            raised = _raised_in_callback(cause.getMessage() or "")
            if raised is not None:
                return raised
        if name == EXCEPTION:
            error = error_of(cause.condition(), cause.getMessage())
            error.jvm_trace = str(cause.trace())
            if cause.getCause() is not None:
                error.add_note(f"Cause: {str(cause.getCause().toString()).splitlines()[0]}")
            return error
        failed = function_failure(cause.getMessage() or "") if name.endswith("PythonException") else None
        if failed is not None:
            return failed
        operators = other_operators(cause.getMessage() or "")
        if operators is not None:
            return operators
        sources = _SOURCES.match(cause.getMessage() or "")
        if sources is not None and OPERATOR in exception.toString():
            return _other_sources(int(sources[1]), int(sources[2]))
    return None


def _causes(exception: Any) -> Iterator[Any]:
    """A Java exception and its causes."""
    # Protects against cyclic causes; no real chain is this long.
    for _ in range(64):
        if exception is None:
            return
        yield exception
        exception = exception.getCause()


def _raised_in_callback(message: str) -> MullionError | None:
    """The error of a ``foreachBatch`` function, from the text of its traceback.

    Only if the traceback ends with a Mullion error: an error that the user's code raised in its place is the user's.
    """
    _, _, traceback = last_raised(message).partition(_TRACEBACK)
    # Frames are indented, and the error comes after them.
    lines = traceback.splitlines()
    at = next((number for number, line in enumerate(lines) if line and not line.startswith(" ")), None)
    match = _OURS.fullmatch(lines[at]) if at is not None else None
    if at is None or match is None:
        return None
    kind = getattr(errors, match[1], None)
    if not (isinstance(kind, type) and issubclass(kind, MullionError)):
        return None
    return kind("\n".join([match[2], *lines[at + 1 :]]).strip())


def failure_in(exception: Any, trace: str) -> TaskFailedError | None:
    """The failure of a task, or of a ``foreachBatch`` function, in one line; ``None`` for any other error."""
    if exception.getClass().getName() != FAILED_QUERY:
        return None
    plan = exception.toString()
    if not is_of_windows(plan):
        return None
    causes = list(_causes(exception))
    messages = [cause.getMessage() or cause.toString() for cause in causes]
    stage = next(filter(None, map(_FAILED_STAGE.search, messages)), None)
    if stage is not None and any(exited_worker(message) == "" for message in messages):
        # An action in a function of foreachBatch has its own plan.
        plan = f"{plan}\n{_plan_with(int(stage[1]))}"
    if causes[-1].getClass().getName() == _CALLBACK:
        return foreach_batch_failure(messages[-1], plan)
    return task_failure(most_telling(messages), plan) if FAILED_TASK in trace else None


def exit_in(exception: Any) -> QueryFailedError | None:
    """The end of a worker that ran a function of an action on a batch DataFrame; ``None`` for any other error."""
    for cause in _causes(exception):
        message = cause.getMessage() or ""
        stage = _FAILED_STAGE.search(message)
        if stage is not None:
            return exit_of_action(message, functools.partial(_plan_with, int(stage[1])))
    return None


def _plan_with(stage: int) -> str:
    """The physical plan of the action with a stage; empty if Spark does not have it any more."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    session, context = SparkSession._instantiatedSession, SparkContext._active_spark_context
    if session is None or context is None:
        return ""
    # Spark records plans in another thread.
    with contextlib.suppress(BridgeError):
        context._jsc.sc().listenerBus().waitUntilEmpty()
        actions = internal(session, "_jsparkSession").sharedState().statusStore().executionsList()
        for index in reversed(range(actions.size())):
            if actions.apply(index).stages().contains(stage):
                return str(actions.apply(index).physicalPlanDescription())
    return ""


def _other_sources(before: int, now: int) -> IncompatibleStateError:
    """Spark compares the sources of a query with its checkpoint's before it compares operators."""
    return IncompatibleStateError(
        f"The checkpoint is of a query with {before} source{'s' * (before != 1)}, and this query has {now}. In "
        "addition to its streams, a query has a source of ticks if panes close or fire by the wall clock: with "
        "time=None, clock=Watermark(idle_after=...) or early=Early(every=...). Change the query back, or start it with "
        "a new checkpointLocation. Nothing was overwritten."
    )


def translate_errors() -> None:
    """Makes PySpark raise Mullion's own types for errors of the JAR, at whichever call they surface. Idempotent.

    PySpark converts Java exceptions in a wrapper around py4j's ``get_return_value``, which it installs for every
    session. Mullion's wrapper goes around that one, not into ``convert_exception``, whose result is raised ``from
    None``: Spark's own exception would be lost.
    """
    from py4j.java_gateway import JavaMember
    from pyspark.errors.exceptions import captured
    from pyspark.sql.streaming import readwriter
    from pyspark.sql.streaming.query import StreamingQuery

    if getattr(captured.capture_sql_exception, "_mullion", False):
        return
    captured.capture_sql_exception = _translating(captured.capture_sql_exception)
    captured.install_exception_handler()
    setattr(JavaMember, "__call__", _without_the_bridge(JavaMember.__call__))  # noqa: B010
    setattr(StreamingQuery, "exception", _translating_result(StreamingQuery.exception))  # noqa: B010
    for name in ("start", "toTable"):
        setattr(
            readwriter.DataStreamWriter, name, _explaining_complete_mode(getattr(readwriter.DataStreamWriter, name))
        )


def _translating(capture: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Callable[..., Any]:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors.exceptions.captured import CapturedException

    def capture_ours(call: Callable[..., Any]) -> Callable[..., Any]:
        captured = capture(call)

        def calling(*args: Any, **kwargs: Any) -> Any:
            try:
                return captured(*args, **kwargs)
            except CapturedException as original:
                ours = error_in(original._origin)
                if ours is None and original._origin is not None:
                    ours = failure_in(original._origin, original._stackTrace or "") or exit_in(original._origin)
                if ours is None:
                    raise
                raise traced(ours, original) from None
            except Py4JJavaError as original:
                ours = error_in(original.java_exception) or exit_in(original.java_exception)
                if ours is None:
                    raise
                raise traced(ours, original) from None

        return calling

    capture_ours._mullion = True  # type: ignore[attr-defined]
    return capture_ours


def _without_the_bridge(call: Callable[..., Any]) -> Callable[..., Any]:
    """The traceback of a Mullion error begins at the call in the user's code or in PySpark, not below it in py4j."""

    @functools.wraps(call)
    def calling(member: Any, *args: Any) -> Any:
        try:
            return call(member, *args)
        except MullionError as ours:
            raise ours.with_traceback(None) from None

    return calling


def _translating_result(
    exception: Callable[[StreamingQuery], StreamingQueryException | None],
) -> Callable[[StreamingQuery], Any]:
    """``query.exception()`` returns the error, so the wrapper above does not see it."""

    @functools.wraps(exception)
    def exception_of(query: StreamingQuery) -> Any:
        error = exception(query)
        if error is None:
            return None
        origin = query._jsq.exception().get()
        ours = error_in(origin)
        if ours is not None and ours.jvm_trace is not None:
            return traced(ours, error)
        from pyspark import SparkContext

        # For a query that has ended PySpark only has the driver's frames.
        jvm: Any = SparkContext._jvm
        trace = str(jvm.org.apache.spark.util.Utils.exceptionString(origin))
        failed = ours or failure_in(origin, trace)
        if failed is None:
            return error
        failed.jvm_trace = trace
        return failed

    return exception_of


def _explaining_complete_mode(start: Callable[..., StreamingQuery]) -> Callable[..., StreamingQuery]:
    """Spark rejects complete mode with a message about missing aggregations, because it only counts its own."""
    from pyspark.errors import AnalysisException

    @functools.wraps(start)
    def starting(writer: DataStreamWriter, *args: Any, **kwargs: Any) -> StreamingQuery:
        try:
            return start(writer, *args, **kwargs)
        except AnalysisException as original:
            refused = original.getCondition() == "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"
            mode = (original.getMessageParameters() or {}).get("outputMode")
            if refused and mode == "complete" and OPERATOR in _plan(writer._df):
                refusal = UnsupportedError(
                    "outputMode('complete') would have to keep every pane that ever closed. Write with "
                    "outputMode('append'), or 'update': each pane is emitted when it fires, and closes once."
                )
                raise traced(refusal, original) from None
            raise

    return starting


def _plan(df: DataFrame) -> str:
    return str(internal(df, "_jdf").queryExecution().analyzed().toString())
