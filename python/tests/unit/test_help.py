"""``help()`` of each public name is enough to use it, and says of fields what the project's schemas say."""

import ast
import importlib
import inspect
import json
import os
import re
import textwrap
import typing
import unittest

from durable_rollouts import answers, requests, rows
from typing_extensions import is_typeddict

MODULES = ["durable_rollouts", "durable_rollouts.aio", "durable_rollouts.export", "durable_rollouts.gym", "rollout_environment", "rollout_environment.retriever", "rollout_environment.agent"]
FOR_THE_SERVER = {"Isolated"}
"""Its attributes are not for programs."""
DICTIONARIES = [requests, answers, rows]


def help_of(thing):
    """Its text in one line; that of a subclass of ``dict`` or ``Exception`` is its own."""
    return " ".join((inspect.getdoc(thing) or "").split())


def says(thing, name):
    """Whether a line of its help is about this name: ``name: …`` or ``other, name: …``."""
    return re.search(rf"^(\w+, )*{name}(, \w+)*: ", inspect.getdoc(thing) or "", re.MULTILINE) is not None


def public(cls):
    """Members that our own classes define, in their order."""
    found = {}
    for base in reversed(cls.__mro__):
        if base.__module__.partition(".")[0] in ("durable_rollouts", "rollout_environment"):
            found.update({name: member for name, member in vars(base).items() if not name.startswith("_")})
    return found


def attributes(cls):
    """Annotated fields, and what ``__init__`` sets."""
    if cls.__name__ in FOR_THE_SERVER:
        return {}
    if is_typeddict(cls):
        return typing.get_type_hints(cls)
    names = [name for name in vars(cls).get("__annotations__", {}) if not name.startswith("_")]
    names += [name for name in getattr(cls, "_fields", ()) if name not in names]
    own = vars(cls).get("__init__")
    if inspect.isfunction(own) and own.__code__.co_filename.endswith(".py"):
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(own)))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
                names += [node.attr] * (node.value.id == "self" and not node.attr.startswith("_"))
    return dict.fromkeys(names)


def faults_of_call(name, call):
    """What its help lacks."""
    call = getattr(call, "__func__", call)
    signature = inspect.signature(call)
    for one in signature.parameters.values():
        if one.name not in ("self", "cls") and not says(call, one.name):
            yield f"{name}: a line `{one.name}: …`"
    text = help_of(call)
    if not text:
        yield f"{name}: help"
    if signature.return_annotation not in (None, "None", "NoReturn") and "Returns" not in text:
        yield f"{name}: `Returns …`"
    if "Raises" not in text:
        yield f"{name}: `Raises …`"


def faults_of_class(name, cls):
    if not help_of(cls) or "__doc__" not in vars(cls):
        yield f"{name}: help"
    for one in attributes(cls):
        if not says(cls, one):
            yield f"{name}: a line `{one}: …`"
    if "__init__" in vars(cls) and not issubclass(cls, Exception):
        yield from faults_of_init(name, cls)
    for member_name, member in public(cls).items():
        at = f"{name}.{member_name}"
        if isinstance(member, property):
            if not help_of(member):
                yield f"{at}: help"
        elif callable(getattr(member, "__func__", member)):
            yield from faults_of_call(at, member)


MADE_BY_OTHERS = {"Client", "Batch", "Stream", "Policy", "Engines", "Transfer", "WeightSyncClient", "Local", "Step", "StoredBatch", "Document", "WandbLog", "Report"}
"""Their help says by which call."""


def faults_of_init(name, cls):
    if cls.__name__ in MADE_BY_OTHERS:
        return
    for one in inspect.signature(cls).parameters:
        if not says(cls, one):
            yield f"{name}: a line `{one}: …`"


def faults_of(name, thing):
    if isinstance(thing, type):
        yield from faults_of_class(name, thing)
    elif inspect.isroutine(thing):
        yield from faults_of_call(name, thing)


class Help(unittest.TestCase):
    maxDiff = None

    def test_of_each_public_name_has_its_arguments_what_it_returns_and_what_it_raises(self):
        lacking, seen = [], 0
        for module_name in MODULES:
            module = importlib.import_module(module_name)
            names = getattr(module, "__all__", ["Client", "Batch", "Stream", "Policy"])
            for name in [name for name in names if not name.startswith("__")]:
                seen += 1
                lacking += faults_of(f"{module_name}.{name}", getattr(module, name))
        self.assertEqual(lacking, [])
        self.assertGreater(seen, 60)

    def test_of_each_dictionary_has_its_fields(self):
        lacking = []
        for module in DICTIONARIES:
            for name, thing in vars(module).items():
                if is_typeddict(thing) and thing.__module__ == module.__name__ and not name.startswith("_"):
                    lacking += faults_of(f"{module.__name__}.{name}", thing)
        self.assertEqual(lacking, [])

    def test_of_a_field_says_what_the_schemas_say(self):
        with open(os.environ["SCHEMAS"]) as file:
            given = json.load(file)
        compared = 0
        for cls, schema in (
            (requests.BatchRequest, given["requests"]["BatchRequest"]),
            (requests.StreamRequest, given["requests"]["StreamRequest"]),
            (requests.GenerationSettings, given["requests"]["BatchRequest"]["properties"]["generation"]),
            (requests.PublishRequest, given["requests"]["PublishRequest"]),
            (rows.RowColumns, given["results"]["Row"]),
        ):
            text = help_of(cls)
            for name, one in schema["properties"].items():
                # That of a stream explains why it takes only null.
                if (cls, name) == (requests.StreamRequest, "policy_version"):
                    continue
                said = f"{name}: {in_python(one['description'])}"
                self.assertIn(said, text, f"help of {cls.__name__}")
                compared += 1
        self.assertGreater(compared, 100)


def in_python(description):
    return re.sub(r"`([^`]*)`", r"``\1``", re.sub(r"\bnull\b", "None", description))


class Checked(unittest.TestCase):
    """The check finds what is missing."""

    def test_finds_each_kind(self):
        def bare(amount):
            return amount

        def half(amount: int) -> int:
            """Doubles.

            amount: of it
            """
            return amount

        class Odd:
            """Odd.

            weight: kg
            """

            def __init__(self, weight):
                self.weight = weight
                self.height = 1

        self.assertEqual(len(list(faults_of("bare", bare))), 4)
        self.assertEqual(list(faults_of("half", half)), ["half: `Returns …`", "half: `Raises …`"])
        self.assertEqual(list(faults_of("Odd", Odd)), ["Odd: a line `height: …`"])
