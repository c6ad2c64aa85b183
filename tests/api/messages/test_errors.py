"""Errors of the JVM in Python."""

import pickle
import sys
from typing import Any

import pytest
from pyspark.errors import AnalysisException

import mullion
from mullion import errors
from mullion._bridge import jvm
from mullion._bridge.jvm.errors import _explaining_complete_mode
from mullion._util.tracebacks import raised_in_worker
from tests.support.fakes import JavaError

OURS = "dev.mullion.MullionException"
THEIRS = "org.apache.spark.SparkException"


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ("INVALID_ARGUMENT", mullion.InvalidArgumentError),
        ("UNKNOWN_COLUMN", mullion.UnknownColumnError),
        ("UNSUPPORTED", mullion.UnsupportedError),
        ("INCOMPATIBLE_STATE", mullion.IncompatibleStateError),
        ("STATE_LOST", mullion.StateLostError),
        ("FUNCTION_FAILED", mullion.FunctionError),
        ("QUERY_FAILED", mullion.errors.QueryFailedError),
        ("WINDOW_INPUT", mullion.errors.WindowInputError),
        ("NEW_WINDOWS", mullion.errors.NewWindowsError),
        ("WRONG_SHARD", mullion.errors.WrongShardError),
        ("VERSION_MISMATCH", mullion.VersionMismatchError),
    ],
)
def test_each_condition_of_the_jvm_has_its_type(condition: str, kind: type[mullion.MullionError]) -> None:
    result = jvm.error_in(JavaError(OURS, "the message", condition))
    assert type(result) is kind
    assert str(result) == "the message"
    assert result.condition == condition


def test_a_condition_of_a_newer_jar_keeps_its_word() -> None:
    result = errors.error_of("NOT_YET_KNOWN", "the message")
    assert type(result) is mullion.MullionError
    assert result.condition == "NOT_YET_KNOWN"


def test_an_error_of_ours_is_found_however_deep_it_is_a_cause() -> None:
    inner = JavaError(OURS, "the message", "UNSUPPORTED")
    outer = JavaError("StreamingQueryException", cause=JavaError(THEIRS, cause=JavaError(THEIRS, cause=inner)))
    assert isinstance(jvm.error_in(outer), mullion.UnsupportedError)


def test_an_error_of_sparks_is_left_alone() -> None:
    assert jvm.error_in(None) is None
    assert jvm.error_in(JavaError(THEIRS, cause=JavaError("java.io.IOException"))) is None


CALLBACK = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "pyspark/sql/utils.py", line 163, in call
    self.func(DataFrame(jdf, wrapped_session_jdf), batch_id)
  File "program.py", line 6, in write
    batch.write.parquet(path)
    ^^^^^^^^^^^^^^^^^^^^^^^^^
"""


def test_what_a_function_of_for_each_batch_raised_is_raised_again() -> None:
    lost = JavaError("py4j.Py4JException", CALLBACK + "mullion.errors.StateLostError: It is gone.\nCall recover().\n")
    result = jvm.error_in(JavaError("StreamingQueryException", cause=JavaError(THEIRS, cause=lost)))
    assert type(result) is mullion.StateLostError
    assert str(result) == "It is gone.\nCall recover()."


@pytest.mark.parametrize(
    "other_error",
    [
        "program.OwnError: mullion.errors.StateLostError: It is gone.\n",
        "mullion.errors.StateLostError: It is gone.\n\nDuring handling of the above exception, another exception "
        'occurred:\n\nTraceback (most recent call last):\n  File "program.py", line 9, in write\n    raise OwnError()\n'
        "program.OwnError\n",
        "mullion.errors.NoSuchError: It is gone.\n",
    ],
)
def test_an_error_that_the_function_raised_in_place_of_ours_is_its_own(other_error: str) -> None:
    assert jvm.error_in(JavaError("py4j.Py4JException", CALLBACK + other_error)) is None


def test_a_long_error_of_another_system_is_looked_through_once() -> None:
    frames = "".join(f"\tat org.apache.spark.Frame.call(Frame.scala:{line})\n" for line in range(20_000))
    other_error = JavaError("py4j.Py4JException", f"{CALLBACK}py4j.protocol.Py4JJavaError: An error.\n  {frames}" * 2)
    assert jvm.error_in(other_error) is None


def test_causes_that_go_round_in_a_circle_come_to_an_end() -> None:
    one = JavaError(THEIRS)
    one.cause = JavaError(THEIRS, cause=one)
    assert jvm.error_in(one) is None


def test_a_wrong_argument_is_a_value_error_too() -> None:
    assert issubclass(mullion.InvalidArgumentError, ValueError)
    assert issubclass(mullion.UnknownColumnError, mullion.InvalidArgumentError)


def test_an_error_keeps_its_condition_when_it_is_pickled() -> None:
    again = pickle.loads(pickle.dumps(errors.error_of("INCOMPATIBLE_STATE", "the message")))
    assert isinstance(again, mullion.IncompatibleStateError)
    assert again.condition == "INCOMPATIBLE_STATE"
    assert str(again) == "the message"


class Writer:
    """A DataStreamWriter, as far as starting it goes."""

    _df = None


def start(writer: Any, mode: str = "complete") -> Any:
    raise AnalysisException(
        "no streaming aggregations",
        errorClass="STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION",
        messageParameters={"outputMode": mode, "operation": "no streaming aggregations"},
    )


def test_sparks_error_about_complete_mode_is_explained_without_the_extension(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mullion._bridge.jvm.errors._plan", lambda df: "WindowedAggregate tumbling 1 hour")
    with pytest.raises(mullion.UnsupportedError, match=r"outputMode\('append'\)") as refused:
        _explaining_complete_mode(start)(Writer())
    assert refused.value.__cause__ is None
    assert "no streaming aggregations" in (refused.value.jvm_trace or "")


def test_sparks_other_errors_about_output_modes_are_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    starting = _explaining_complete_mode(start)
    monkeypatch.setattr("mullion._bridge.jvm.errors._plan", lambda df: "WindowedAggregate tumbling 1 hour")
    with pytest.raises(AnalysisException):
        starting(Writer(), mode="update")
    monkeypatch.setattr("mullion._bridge.jvm.errors._plan", lambda df: "Project")
    with pytest.raises(AnalysisException):
        starting(Writer())


def test_a_worker_of_another_python_is_recognized() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/usr/lib/python3/pyspark/worker.py", line 12, in read\n'
        '  File "/usr/lib/python3/py4j/java_gateway.py", line 1362, in loads\n'
        "ModuleNotFoundError: No module named 'mullion'\n"
    )
    message = raised_in_worker(text)
    assert message is not None
    assert f"Set PYSPARK_PYTHON to one that has it, such as {sys.executable}" in message
    package = raised_in_worker(text.replace("'mullion'", "'pandas.core'"))
    assert package is not None
    assert "a Python that pandas is not installed for" in package
    other = raised_in_worker(text.replace("'mullion'", "'mullions'"))
    assert other == "ModuleNotFoundError: No module named 'mullions'"
