"""Prints the pinned requirements of extras of pyproject.toml, one a line: requirements.py EXTRA..."""

import sys
import tomllib
from pathlib import Path

extras = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
print("\n".join(sorted({line for name in sys.argv[1:] for line in extras[name]})))
