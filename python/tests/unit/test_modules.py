"""Modules of the package import one another one way, also where only a type checker reads it."""

import ast
import unittest
from pathlib import Path

import durable_rollouts

ROOT = Path(durable_rollouts.__file__).parent


def module_of(file):
    parts = file.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(file, known):
    """Modules of the package that a file names, at any depth of its text."""
    own = module_of(file)
    folder = own if file.name == "__init__.py" else own.rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf8"))):
        if isinstance(node, ast.ImportFrom) and node.level > 0:
            base = folder.rsplit(".", node.level - 1)[0] if node.level > 1 else folder
            base = f"{base}.{node.module}" if node.module else base
            # The package says its version, and imports all else.
            for one in [name for name in node.names if name.name != "__version__"]:
                found = f"{base}.{one.name}"
                yield found if found in known else base


def circles(graph):
    """Those on the way of a search from each module."""
    found, done = [], set()

    def walk(name, way):
        if name in way:
            found.append([*way[way.index(name) :], name])
        elif name not in done:
            for other in sorted(graph.get(name, ())):
                walk(other, [*way, name])
            done.add(name)

    for name in sorted(graph):
        walk(name, [])
    return found


class Modules(unittest.TestCase):
    def test_import_one_another_without_a_circle(self):
        files = {module_of(file): file for file in ROOT.rglob("*.py")}
        graph = {name: set(imports(file, files)) - {name} for name, file in files.items()}
        self.assertGreater(len(graph), 40)
        self.assertIn("durable_rollouts.aio.transfer", graph["durable_rollouts.aio.policy"])
        self.assertEqual(circles(graph), [])

    def test_a_circle_is_found(self):
        self.assertEqual(circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}), [["b", "c", "b"]])
