"""The command ``mullion``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mullion import _cli, topics
from mullion._app.report import where_of
from test_app import fail_at_13

PROGRAM = """
from relay import Relay
from test_app import fail_at_13

app = Relay("relay", broker={broker!r})
class Holder: inner = app
number = 5

app.relay("numbers", ["fine"], fail_at_13)
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    name = f"program_{tmp_path.name}"
    Path(f"{name}.py").write_text(PROGRAM.format(broker=f"dir:{tmp_path}/topics"))
    Path(f"{name}_broken.py").write_text("import no_such_module")
    return name


def test_a_program_is_explained_and_its_parts_listed(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _cli.main(["turbine", "explain", f"{program}:app"]) == 0
    assert _cli.main(["turbine", "windows", f"{program}:Holder.inner"]) == 0
    line = where_of(fail_at_13)
    explained, listed = capsys.readouterr().out.split("kind")
    assert explained.splitlines()[1].split() == ["fail_at_13", "Python", *["it", "is", "a", "function"], line]
    assert listed.splitlines()[1].split() == ["handler", "fail_at_13", line]


@pytest.mark.parametrize(
    ("app", "message"),
    [
        ("app", "'app' does not name an App. Write module:app"),
        ("no_such:app", "There is no module 'no_such', which 'no_such:app' names, in /"),
        ("{}:ap", "has no 'ap'. The Apps in it: {}:app"),
        ("{}:number", "is no App, but a int"),
    ],
)
def test_what_is_no_app_is_refused(program: str, capsys: pytest.CaptureFixture[str], app: str, message: str) -> None:
    assert _cli.main(["turbine", "run", app.format(program)]) == _cli.REFUSED
    complaint = capsys.readouterr().err
    assert complaint.startswith("mullion: ")
    assert message.format(program) in complaint


def test_an_app_of_another_api_is_refused(
    program: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay.Relay.api", "faust")
    assert _cli.main(["turbine", "run", f"{program}:app"]) == _cli.REFUSED
    assert "is an App of mullion.faust. Write mullion faust" in capsys.readouterr().err


def test_an_error_inside_of_the_module_is_its_own(program: str) -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        _cli.main(["turbine", "run", f"{program}_broken:app"])


def test_a_command_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["turbine"], ["turbine", "fly", "a:b"], ["turbine", "run"], ["nothing"]):
        with pytest.raises(SystemExit) as refused:
            _cli.main(arguments)
        assert refused.value.code == _cli.REFUSED
    assert "usage: mullion" in capsys.readouterr().err


@pytest.mark.usefixtures("spark")
def test_a_program_runs_until_it_is_drained_or_fails(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = f"dir:{tmp_path}/topics"
    topics.produce(broker, "numbers", [{"n": 4}])
    assert _cli.main(["turbine", "run", f"{program}:app", "--until", "drained"]) == 0
    assert topics.read(broker, "fine")["n"].to_pylist() == [4]

    topics.produce(broker, "numbers", [{"n": 13}])
    assert _cli.main(["turbine", "run", f"{program}:app", "--until", "drained"]) == _cli.FAILED
    assert "mullion: 'fail_at_13' failed" in capsys.readouterr().err
