"""The synchronous client, from the asynchronous one: the same signatures and texts; the loop of another thread plays each."""

import ast
import builtins
import re
from pathlib import Path

CLASSES = [("client", "Client"), ("batch", "Batch"), ("stream", "Stream"), ("policy", "Policy"), ("transfer", "Transfer"), ("transfer", "Engines")]
"""Which module has which class, in the order in which they are written."""
WIDTH = 130
HEAD = '''"""The synchronous form of ``durable_rollouts.aio``: the same objects, on an event loop in a separate thread."""

from __future__ import annotations

{imports}
'''


class Module:
    """A source file: its classes, and where its names come from."""

    def __init__(self, file: Path) -> None:
        self.name = file.stem
        self.text = file.read_text(encoding="utf8")
        self.lines = self.text.splitlines(keepends=True)
        self.tree = ast.parse(self.text)
        self.classes = {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}
        self.origins = {}
        for node in self.tree.body:
            if isinstance(node, ast.ImportFrom):
                # One that stands in the folder of the package is a neighbour of its files.
                place = f".{node.module}" if node.level == 2 else f".aio.{node.module}" if node.level == 1 else node.module
                self.origins.update({one.name: place for one in node.names})
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                self.origins.update({one.id: f".aio.{self.name}" for one in targets if isinstance(one, ast.Name)})
        self.origins.update({name: f".aio.{self.name}" for name in self.classes})

    def doc(self, node: ast.AST) -> str:
        """Its docstring with the lines that it has, without what only an event loop needs; empty: none."""
        first = node.body[0]
        if ast.get_docstring(node) is None:
            return ""
        text = "".join(self.lines[first.lineno - 1 : first.end_lineno])
        return re.sub(r"\basync (with|for)\b", r"\1", re.sub(r"\bawait ", "", text))

    def signature(self, node: ast.AST) -> str:
        """As it is written, from ``def`` to the colon."""
        text = "".join(self.lines[node.lineno - 1 : node.body[0].lineno - 1])
        text = text.replace("async def ", "def ", 1).replace("-> AsyncIterator[", "-> Iterator[")
        return re.sub(r"\b__a(enter|exit)__", r"__\1__", text)


def names_in(node: ast.AST) -> set:
    """Names in an annotation or a default; annotations may be text."""
    found = set()
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            found.add(one.id)
        elif isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value.isidentifier():
            found.add(one.value)
    return found


class Writer:
    """Writes the module, and remembers the names that it needs."""

    def __init__(self, folder: Path) -> None:
        names = [*dict.fromkeys(module for module, _ in CLASSES), "steering"]
        self.modules = {name: Module(folder / f"{name}.py") for name in names}
        self.wrapped = {name for _, name in CLASSES}
        self.needs = {}

    def need(self, module: Module, node: ast.AST) -> None:
        for name in names_in(node):
            # Text of a ``Literal`` is no name of the module.
            if name not in self.wrapped and name in module.origins and not hasattr(builtins, name):
                taken = "Iterator" if name == "AsyncIterator" else name
                self.needs.setdefault(module.origins[name], set()).add(taken)

    def module(self) -> str:
        bodies = [self.of_class(self.modules[module], name) for module, name in CLASSES]
        return HEAD.format(imports=self.imports()) + "\n\n" + "\n\n".join(bodies)

    def imports(self) -> str:
        places = {**self.needs, ".": {"aio"}, ".loop": {"each", "run"}}
        own = lambda place: (place.startswith("."), place != "typing" and place != "types")  # noqa: E731
        blocks = {}
        for place in sorted(places, key=lambda one: (own(one), one)):
            names = sorted(places[place])
            line = f"from {place} import {', '.join(names)}"
            if len(line) > WIDTH:
                line = f"from {place} import (\n" + "".join(f"    {name},\n" for name in names) + ")"
            blocks.setdefault(own(place), []).append(line)
        return "\n\n".join("\n".join(lines) for lines in blocks.values())

    def of_class(self, module: Module, name: str) -> str:
        node = module.classes[name]
        parts = [f"class {name}:\n{module.doc(node)}"]
        parts.append(f"    def __init__(self, inner: aio.{name}) -> None:\n        self._aio = inner\n")
        parts += self.attributes(module, node)
        bases = [(one, one.classes[base.id]) for base in node.bases for one in self.modules.values() if base.id in one.classes]
        for home, cls in [(module, node), *bases]:
            for method in cls.body:
                if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and is_shown(method):
                    parts.append(self.method(home, method))
        parts.append("    def __repr__(self) -> str:\n        return repr(self._aio)\n")
        return "\n".join(parts)

    def attributes(self, module: Module, node: ast.ClassDef) -> list:
        """What ``__init__`` sets under a public name; the class's text says what it is."""
        made = next(one for one in node.body if getattr(one, "name", None) == "__init__")
        found = []
        for one in ast.walk(made):
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Attribute) and not one.target.attr.startswith("_"):
                name = one.target.attr
                said = re.search(rf"^ *{name}: (.*)$", ast.get_docstring(node) or "", re.MULTILINE)
                if said is None:
                    raise SystemExit(f"{module.name}.py: expected a line `{name}: …` in the text of {node.name}")
                self.need(module, one.annotation)
                text = said[1][0].upper() + said[1][1:]
                found.append(
                    f"    @property\n    def {name}(self) -> {ast.unparse(one.annotation)}:\n"
                    f'        """{text.rstrip(".")}."""\n        return self._aio.{name}\n'
                )
        return found

    def method(self, module: Module, node: ast.AST) -> str:
        arguments = node.args
        for one in [*arguments.args, *arguments.kwonlyargs, arguments.kwarg]:
            if one is not None and one.annotation is not None:
                self.need(module, one.annotation)
        for one in [*arguments.defaults, *arguments.kw_defaults, node.returns]:
            if one is not None:
                self.need(module, one)
        kinds = {ast.unparse(one) for one in node.decorator_list}
        decorators = "".join(f"    @{kind}\n" for kind in sorted(kinds))
        body = f"        {self.call(node, kinds)}\n"
        if len(body) > WIDTH:
            body = exploded(body)
        return decorators + module.signature(node) + module.doc(node) + body

    def call(self, node: ast.AST, kinds: set) -> str:
        given = [one.arg for one in node.args.args[1:]] + [f"{one.arg}={one.arg}" for one in node.args.kwonlyargs]
        given += [f"**{node.args.kwarg.arg}"] if node.args.kwarg else []
        target = f"aio.{CLASSES[0][1]}" if "classmethod" in kinds else "self._aio"
        call = f"{target}.{node.name}" if "property" in kinds else f"{target}.{node.name}({', '.join(given)})"
        returned = "None" if node.returns is None else ast.unparse(node.returns).strip("'\"")
        in_thread = thread_call(node)
        if in_thread is not None:
            call = in_thread
        elif returned.startswith("AsyncIterator["):
            call = f"each({call})"
        elif isinstance(node, ast.AsyncFunctionDef):
            call = f"run({call})"
        if "classmethod" in kinds:
            call = f"cls({call})"
        elif returned in self.wrapped:
            call = f"{returned}({call})"
        return call if returned == "None" else f"return {call}"


def is_shown(method: ast.AST) -> bool:
    return method.name in ("__aenter__", "__aexit__") or not method.name.startswith("_")


def thread_call(node: ast.AST) -> "str | None":
    """What only keeps an event loop free, by ``asyncio.to_thread(self.…)``, is called here as it is. None: it is none."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    found = re.fullmatch(r"(?:return )?await asyncio\.to_thread\(self\.(\w+), (.*)\)", ast.unparse(body[0])) if len(body) == 1 else None
    return None if found is None else f"self._aio.{found[1]}({found[2]})"


def exploded(body: str) -> str:
    """The innermost call with one argument a line."""
    head, _, rest = body.rstrip("\n").rpartition("(")
    given, _, tail = rest.partition(")")
    indent = " " * 12
    return f"{head}(\n{indent}" + f",\n{indent}".join(given.split(", ")) + f",\n        ){tail}\n"


def synchronous(folder: Path) -> str:
    """The text of ``sync.py``. folder: has the modules of ``durable_rollouts.aio``"""
    return Writer(folder).module()
