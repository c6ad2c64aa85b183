"""The project's files for tools outside this repository: workflows, hooks and the package's metadata."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import trove_classifiers
import yaml

from mullion import __version__
from mullion._util import install

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = set(" ".join(re.findall(r"^\.PHONY:(.*)$", MAKEFILE, re.MULTILINE)).split())
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def loaded(file: Path) -> Any:
    return yaml.safe_load(file.read_text("utf-8"))


def targets_in(commands: str) -> set[str]:
    return set(re.findall(r"\bmake (?:--silent )?([a-z][a-z0-9-]*)", commands))


def commands_of(workflow: dict[str, Any]) -> list[str]:
    return [step["run"] for job in workflow["jobs"].values() for step in job.get("steps", ()) if "run" in step]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_a_workflow_makes_what_the_makefile_has(file: Path) -> None:
    workflow = loaded(file)
    # YAML reads the key ``on`` as true.
    assert workflow[True]
    for job in workflow["jobs"].values():
        if "uses" in job:
            assert (ROOT / job["uses"]).is_file()
        else:
            assert job["timeout-minutes"] > 0
    wanted = targets_in("\n".join(commands_of(workflow)))
    assert wanted <= TARGETS
    assert wanted or "uses" in str(workflow)


def test_each_command_for_contributors_is_in_the_makefile() -> None:
    targets = targets_in("\n".join(re.findall(r"`(make [^`]*)`", (ROOT / "CONTRIBUTING.md").read_text("utf-8"))))
    assert {"check", "test", "wheel"} <= targets <= TARGETS


def test_the_tested_versions_are_the_promised_versions() -> None:
    (jobs,) = (loaded(file)["jobs"] for file in WORKFLOWS if file.stem == "test")
    matrix = jobs["test"]["strategy"]["matrix"]["include"]
    promised = [entry for entry in matrix if not entry["tried"]]
    pythons = {line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)}
    assert {entry["python"] for entry in promised} == pythons
    lines = set(re.findall(r'SparkVersion\("([\d.]+)"', (ROOT / "project" / "SparkVersion.scala").read_text("utf-8")))
    assert {entry["spark"] for entry in matrix} <= lines


def test_every_classifier_exists_on_pypi() -> None:
    # The wheel is built with the same version.
    assert set(PROJECT["classifiers"]) <= trove_classifiers.classifiers


def test_messages_and_pages_install_the_package_in_one_way() -> None:
    assert PROJECT["name"] == "mullion-spark"
    python = [file for file in (ROOT / "python").rglob("*.py") if file.name != "install.py"]
    sources = [*python, *(ROOT / "jvm").rglob("src/main/**/*.scala")]
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    named = re.compile(r"pip install ['\"]?(?:dist/)?(mullion[\w.*-]+)(?:\[(\w+)\])?")
    assert not [command for file in sources for command in named.findall(file.read_text("utf-8"))]
    in_pages = {command for file in pages for command in named.findall(file.read_text("utf-8"))}
    assert {name for name, _ in in_pages} == {"mullion_spark-*.whl", f"mullion_spark-{__version__}-py3-none-any.whl"}
    extras = {extra for file in python for extra in re.findall(r"pip_install\(['\"](\w+)", file.read_text("utf-8"))}
    assert extras
    assert extras | {extra for _, extra in in_pages if extra} <= PROJECT["optional-dependencies"].keys()


def test_the_command_that_installs_names_the_wheel_until_the_package_is_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert install.pip_install("kafka") == f"pip install 'mullion_spark-{__version__}-py3-none-any.whl[kafka]'"
    monkeypatch.setattr(install, "PUBLISHED", True)
    assert install.pip_install("kafka") == f"pip install 'mullion-spark[kafka]=={__version__}'"


def test_hooks_and_templates_can_be_read() -> None:
    for hook in loaded(ROOT / ".pre-commit-config.yaml")["repos"][0]["hooks"]:
        assert targets_in(hook["entry"]) <= TARGETS
    templates = ROOT / ".github" / "ISSUE_TEMPLATE"
    for file in templates.glob("*.yml"):
        if file.stem != "config":
            assert {"name", "description", "body"} <= loaded(file).keys()
