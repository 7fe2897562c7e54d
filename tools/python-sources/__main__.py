"""Writes what of package durable_rollouts is made from something else: ``python3 tools/python-sources [--check]``.

``requests.py``, ``rows.py`` and ``answers.py`` have the types of ``docs/schemas``, ``sync.py`` the calls of
``durable_rollouts.aio``. They are committed, so that the package is built without this. ``--check`` writes nothing, names
what would change, and ends with 1 if anything would.
"""

import sys
from pathlib import Path

from names import MODULES
from synchronous import synchronous
from typed_dicts import Writer

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "python" / "durable_rollouts"
FIRST_LINE = "# Made by tools/python-sources from {source}: changes of this file are lost.\n"


def made() -> dict:
    """By file, its text."""
    writer = Writer(ROOT / "docs" / "schemas")
    texts = {f"{name}.py": FIRST_LINE.format(source="docs/schemas") + writer.text(name) for name in MODULES}
    return {**texts, "sync.py": FIRST_LINE.format(source="durable_rollouts.aio") + synchronous(PACKAGE / "aio")}


def main(options: list) -> int:
    changed = []
    for name, text in made().items():
        file = PACKAGE / name
        if file.exists() and file.read_text(encoding="utf8") == text:
            continue
        changed.append(name)
        if options != ["--check"]:
            file.write_text(text, encoding="utf8")
    if changed and options == ["--check"]:
        print(f"python3 tools/python-sources would change {', '.join(changed)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
