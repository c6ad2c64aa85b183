"""Prints the pinned requirements of dependency groups of pyproject.toml, one a line: requirements.py GROUP..."""

import sys
import tomllib
from pathlib import Path

groups = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
print("\n".join(sorted({line for name in sys.argv[1:] for line in groups[name]})))
