"""Writes what of package durable_rollouts is made from something else: ``python3 tools/python-sources [--check]``.

``requests.py``, ``rows.py`` and ``answers.py`` have the types of ``docs/schemas``, ``sync.py`` the calls of
``durable_rollouts.aio``. They are committed, so that the package is built without this. ``--check`` writes nothing, and
fails with what would change.
"""

import sys
from pathlib import Path

from names import MODULES
from synchronous import synchronous
from typed_dicts import Writer

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "python" / "durable_rollouts"
FIRST_LINE = "# Made by tools/python-sources from {source}: changes of this file are lost.\n"


writer = Writer(ROOT / "docs" / "schemas")
made = {f"{name}.py": FIRST_LINE.format(source="docs/schemas") + writer.text(name) for name in MODULES}
made["sync.py"] = FIRST_LINE.format(source="durable_rollouts.aio") + synchronous(PACKAGE / "aio")
for name, text in made.items():
    file = PACKAGE / name
    if sys.argv[1:] != ["--check"]:
        file.write_text(text, encoding="utf8")
    elif not file.exists() or file.read_text(encoding="utf8") != text:
        sys.exit(f"python3 tools/python-sources would change {file.relative_to(ROOT)}")
