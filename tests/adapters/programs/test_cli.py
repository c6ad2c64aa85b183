"""The command ``mullion``."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest
from pyspark.cloudpickle import register_pickle_by_value

import mullion
from mullion import topics
from mullion._program.cli import main as _cli
from mullion._program.report import where_of
from tests.adapters.programs.test_app import fail_at_13

PROGRAM = """
from tests.support.kafka.relay import Relay
from tests.adapters.programs.test_app import fail_at_13

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
    assert listed.splitlines()[1].split() == ["handler", "fail_at_13", "none", "yet", line]


@pytest.mark.parametrize(
    ("app", "message"),
    [
        ("app", "'app' does not name an App. Write module:app"),
        ("no_such:app", "There is no module 'no_such', which 'no_such:app' names, in /"),
        ("{}:ap", "has no 'ap'. The Apps in it: {}:app"),
        ("{}:number", "(int) is not an App"),
    ],
)
def test_an_object_that_is_no_app_is_rejected(
    program: str, capsys: pytest.CaptureFixture[str], app: str, message: str
) -> None:
    assert _cli.main(["turbine", "run", app.format(program)]) == _cli.REFUSED
    complaint = capsys.readouterr().err
    assert complaint.startswith("mullion: ")
    assert message.format(program) in complaint


def test_an_app_of_another_api_is_rejected(
    program: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.support.kafka.relay.Relay.api", "faust")
    assert _cli.main(["turbine", "run", f"{program}:app"]) == _cli.REFUSED
    assert "is an App of mullion.faust. Write mullion faust" in capsys.readouterr().err

    for command in ("explain", "tables"):
        assert _cli.main(["faust", command, "-A", f"{program}:app"]) == 0
    assert capsys.readouterr().out.count("fail_at_13") == 2


def test_an_error_inside_of_the_module_is_its_own(program: str) -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        _cli.main(["turbine", "run", f"{program}_broken:app"])


def test_a_command_that_there_is_not_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("", "turbine", "turbine fly a:b", "turbine run", "faust worker a:b", "nothing"):
        with pytest.raises(SystemExit) as refused:
            _cli.main(line.split())
        assert refused.value.code == _cli.REFUSED
    assert "usage: mullion" in capsys.readouterr().err


def test_an_adapter_defines_its_own_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    door = tmp_path / "trial"
    door.mkdir()
    (door / "__init__.py").touch()
    (door / "_commands.py").write_text(
        """
from mullion._program.cli.commands import Command
from mullion.errors import InvalidArgumentError, QueryFailedError

def prepare(options):
    if options.count > 3:
        raise InvalidArgumentError("too many")
    def run():
        if options.count == 3:
            raise QueryFailedError("it failed")
        print("ran", options.count)
    return run

COMMANDS = [Command("go", "go so many times", lambda parser: parser.add_argument("count", type=int), prepare)]
"""
    )
    monkeypatch.setattr(mullion, "__path__", [*mullion.__path__, str(tmp_path)])
    assert _cli.doors() == [*_cli.doors()[:-1], "trial"]
    assert {"faust", "turbine"} < set(_cli.doors())
    assert [_cli.main(["trial", "go", count]) for count in "234"] == [0, _cli.FAILED, _cli.REFUSED]
    assert capsys.readouterr() == ("ran 2\n", "mullion: it failed\nmullion: too many\n")
    with pytest.raises(SystemExit):
        _cli.main(["--help"])
    assert "programs written with mullion.trial" in capsys.readouterr().out


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


TURBINE = """
import mullion.turbine as turbine
from mullion.turbine import aggregates as agg, windowing as win

app = turbine.App("shop", broker={broker!r})

@app.subscribe("orders", publish_to="revenue")
class revenue:
    def __init__(self):
        self._win = win.PersistentTumbling(
            self, name="revenue_5m", size_ms=300_000, key=["region"], value=agg.Sum("amount"),
            time_column="event_ts_ms", on_close=self._closed,
        )

    def _closed(self, state, panes):
        return panes.to_batches()[0]

    def process(self, batch, state):
        self._win.update(batch, state)
"""


@pytest.mark.usefixtures("spark")
def test_a_turbine_program_runs_and_shows_its_open_panes(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = f"dir:{tmp_path}/topics"
    Path(f"{program}_shop.py").write_text(TURBINE.format(broker=broker))
    rows = [{"region": region, "amount": 1.0, "event_ts_ms": 1000} for region in ("north", "south", "north")]
    topics.produce(broker, "orders", rows)
    app = f"{program}_shop:app"
    sys.path.insert(0, str(tmp_path))
    # The session of the tests runs already, and its workers do not look in this folder.
    register_pickle_by_value(  # type: ignore[no-untyped-call]
        importlib.import_module(f"{program}_shop")
    )
    for command in (["windows", app], ["run", app, "--until", "drained"], ["windows", app]):
        assert _cli.main(["turbine", *command]) == 0
    before, after = capsys.readouterr().out.split("kind")[1:]
    assert before.splitlines()[1].split()[:4] == ["window", "revenue_5m", "none", "yet"]
    assert after.splitlines()[1].split()[:5] == ["window", "revenue_5m", "2", "open", "panes"]
