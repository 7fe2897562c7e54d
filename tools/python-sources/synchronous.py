"""The synchronous client, from the asynchronous one: the same signatures and texts; the loop of another thread plays each."""

import ast
import re
from pathlib import Path

from typed_dicts import code_of

CLASSES = {"Client": "client", "Batch": "batch", "Stream": "stream", "Policy": "policy", "Transfer": "transfer", "Engines": "transfer"}
"""Which module has which, in the order in which they are written."""
HEAD = '"""The synchronous form of ``durable_rollouts.aio``: the same objects, on an event loop in a separate thread."""'
LOCALS = {"aio": ".", "each": ".loop", "run": ".loop", "Iterator": "typing"}
"""What is named here alone, by where it comes from."""


class Module:
    """A source file: its classes, and where its names come from."""

    def __init__(self, file: Path) -> None:
        text = file.read_text(encoding="utf8")
        self.lines = text.splitlines(keepends=True)
        tree = ast.parse(text)
        self.classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        self.origins = {name: f".aio.{file.stem}" for name in self.classes}
        for node in tree.body:
            if isinstance(node, ast.ImportFrom):
                # What stands in the folder of the package is beside the written file, too.
                place = {0: node.module, 1: f".aio.{node.module}", 2: f".{node.module}"}[node.level]
                self.origins.update({one.name: place for one in node.names if node.module is not None})
            elif isinstance(node, ast.Assign):
                self.origins.update({one.id: f".aio.{file.stem}" for one in node.targets if isinstance(one, ast.Name)})

    def doc(self, node: ast.AST) -> str:
        """Its docstring with the lines that it has, without what only an event loop needs; empty: none."""
        if ast.get_docstring(node) is None:
            return ""
        text = "".join(self.lines[node.body[0].lineno - 1 : node.body[0].end_lineno])
        return re.sub(r"\basync (with|for)\b", r"\1", re.sub(r"\bawait ", "", text))

    def signature(self, node: ast.AST) -> str:
        """As it is written, from ``def`` to the colon."""
        text = "".join(self.lines[node.lineno - 1 : node.body[0].lineno - 1])
        text = text.replace("async def ", "def ", 1).replace("-> AsyncIterator[", "-> Iterator[")
        return re.sub(r"\b__a(enter|exit)__", r"__\1__", text)

    def of_class(self, node: ast.ClassDef, inherited: list) -> str:
        """inherited: other modules, by class"""
        parts = [f"class {node.name}:\n{self.doc(node)}"]
        parts.append(f"    def __init__(self, inner: aio.{node.name}) -> None:\n        self._aio = inner\n")
        parts += attributes(node)
        bases = [(inherited[base.id], inherited[base.id].classes[base.id]) for base in node.bases]
        for home, cls in [(self, node), *bases]:
            methods = [one for one in cls.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)) and is_shown(one)]
            parts += [home.method(one) for one in methods]
        return "\n".join([*parts, "    def __repr__(self) -> str:\n        return repr(self._aio)\n"])

    def method(self, node: ast.AST) -> str:
        decorators = "".join(f"    @{ast.unparse(one)}\n" for one in node.decorator_list)
        return f"{decorators}{self.signature(node)}{self.doc(node)}        {call_of(node)}\n"


def is_shown(method: ast.AST) -> bool:
    return method.name in ("__aenter__", "__aexit__") or not method.name.startswith("_")


def attributes(node: ast.ClassDef) -> list:
    """What ``__init__`` sets under a public name; the class's text says what it is."""
    made = next(one for one in node.body if getattr(one, "name", None) == "__init__")
    found = []
    for one in ast.walk(made):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Attribute) and not one.target.attr.startswith("_"):
            name = one.target.attr
            said = re.search(rf"^ *{name}: (.)(.*)$", ast.get_docstring(node), re.MULTILINE)
            if said is None:
                raise SystemExit(f"{node.name}: expected a line `{name}: …` in its text")
            text = f'"""{said[1].upper()}{said[2]}."""'
            found.append(f"    @property\n    def {name}(self) -> {ast.unparse(one.annotation)}:\n        {text}\n        return self._aio.{name}\n")
    return found


def call_of(node: ast.AST) -> str:
    """The body: the same call of the object behind this one, and its result in an object as this one."""
    kinds = {ast.unparse(one) for one in node.decorator_list}
    target = "aio.Client" if "classmethod" in kinds else "self._aio"
    given = [one.arg for one in node.args.args[1:]] + [f"{one.arg}={one.arg}" for one in node.args.kwonlyargs]
    given += [f"**{node.args.kwarg.arg}"] if node.args.kwarg else []
    call = f"{target}.{node.name}" + ("" if "property" in kinds else f"({', '.join(given)})")
    returned = ast.unparse(node.returns).strip("'\"")
    in_thread = re.fullmatch(r"await asyncio\.to_thread\(self\.(\w+), (.*)\)", ast.unparse(node.body[-1]))
    if in_thread is not None:
        # This keeps an event loop free, which nobody has here.
        call = f"{target}.{in_thread[1]}({in_thread[2]})"
    elif isinstance(node, ast.AsyncFunctionDef):
        call = f"each({call})" if returned.startswith("AsyncIterator[") else f"run({call})"
    if returned in CLASSES:
        call = f"{'cls' if 'classmethod' in kinds else returned}({call})"
    return call if returned == "None" else f"return {call}"


def synchronous(folder: Path) -> str:
    """The text of ``sync.py``. folder: has the modules of ``durable_rollouts.aio``"""
    modules = {name: Module(folder / f"{name}.py") for name in [*CLASSES.values(), "steering"]}
    origins = {name: place for module in modules.values() for name, place in module.origins.items()} | LOCALS
    homes = {name: module for module in modules.values() for name in module.classes}
    body = "\n\n".join(modules[home].of_class(homes[name].classes[name], homes) for name, home in CLASSES.items())
    needs = {}
    for name in sorted(set(re.findall(r"\w+", code_of(body))) & origins.keys() - CLASSES.keys()):
        needs.setdefault(origins[name], []).append(name)
    imports = "\n".join(f"from {place} import {', '.join(needs[place])}" for place in sorted(needs, key=lambda one: (one.startswith('.'), one)))
    return f"{HEAD}\n\nfrom __future__ import annotations\n\n{imports}\n\n\n{body}"
