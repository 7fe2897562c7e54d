"""Requests, rows and results against the project's schemas: SCHEMAS names a file of JSON Schemas that zod has written, by name."""

import collections.abc
import inspect
import json
import os
import types
import typing
import unittest

import durable_rollouts.answers as answers
import durable_rollouts.faults as faults
import durable_rollouts.requests as requests
import durable_rollouts.rows as rows
from durable_rollouts import aio
from durable_rollouts.defaults import first_difference, with_defaults
from typing_extensions import NotRequired, Required, get_args, get_origin, get_type_hints, is_typeddict

with open(os.environ["SCHEMAS"]) as file:
    GIVEN = json.load(file)

PLAIN = {str: "string", bool: "boolean", int: "integer", float: "number"}


def of_schema(schema):
    """What a type can say of a schema: no bounds, no patterns, no texts."""
    if "anyOf" in schema or "oneOf" in schema:
        return one_of(of_schema(one) for one in schema.get("anyOf", schema.get("oneOf")))
    if "const" in schema:
        return ("literal", [schema["const"]])
    if "enum" in schema:
        return ("literal", sorted(schema["enum"]))
    if isinstance(schema.get("type"), list):
        return one_of(("plain", one) for one in schema["type"])
    if schema.get("type") == "array":
        items = schema.get("items")
        return ("list", of_schema(items if isinstance(items, dict) else {}))
    if "properties" in schema:
        required = set(schema.get("required", []))
        return ("fields", {name: (of_schema(one), name in required) for name, one in schema["properties"].items()})
    return ("object",) if schema.get("type") == "object" else ("plain", schema.get("type", "any"))


def of_type(hint):
    """The same of a type."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Required, NotRequired):
        return of_type(args[0])
    if origin in (typing.Union, types.UnionType):
        return one_of(of_type(arg) for arg in args)
    if origin is typing.Literal:
        return ("literal", sorted(args))
    if origin in (list, collections.abc.Iterable):
        return ("list", of_type(args[0]))
    if is_typeddict(hint):
        hints = get_type_hints(hint, include_extras=True)
        return ("fields", {name: (of_type(one), name in hint.__required_keys__) for name, one in hints.items()})
    if origin is dict:
        return ("object",)
    if hint is type(None):
        return ("plain", "null")
    return ("plain", "any" if hint is typing.Any else PLAIN[hint])


def one_of(members):
    several = sorted(members, key=repr)
    return several[0] if len(several) == 1 else ("one of", several)


def as_far_as(hint, schema):
    """The type where the schema says something, and `any` where it does not: what zod checks in code of ours."""
    if schema == ("plain", "any"):
        return schema
    if isinstance(hint, dict) and isinstance(schema, dict):
        return {name: as_far_as(one, schema.get(name)) for name, one in hint.items()}
    if isinstance(hint, (list, tuple)) and type(hint) is type(schema) and len(hint) == len(schema):
        return type(hint)(as_far_as(*pair) for pair in zip(hint, schema))
    return hint


def defaults_of(schema):
    """The default of each field that has one, including fields of objects."""
    found = {}
    for name, one in schema["properties"].items():
        inner = defaults_of(one) if "properties" in one else {}
        if "default" in one:
            found[name] = {**one["default"], **inner} if isinstance(one["default"], dict) else one["default"]
    return found


class Requests(unittest.TestCase):
    maxDiff = None
    TYPES = {
        "BatchRequest": (requests.BatchRequest, requests.BATCH_DEFAULTS),
        "RolloutSettings": (requests.RolloutSettings, requests.ROLLOUT_DEFAULTS),
        "StreamRequest": (requests.StreamRequest, requests.STREAM_DEFAULTS),
        "PublishRequest": (requests.PublishRequest, requests.PUBLISH_DEFAULTS),
        "BeginRequest": (requests.BeginRequest, requests.BEGIN_DEFAULTS),
        "SleepRequest": (requests.SleepRequest, requests.SLEEP_DEFAULTS),
        "WakeRequest": (requests.WakeRequest, requests.WAKE_DEFAULTS),
        "ReleaseRequest": (requests.ReleaseRequest, {}),
        "JoinRequest": (requests.JoinRequest, requests.JOIN_DEFAULTS),
        "DrainRequest": (requests.DrainRequest, requests.DRAIN_DEFAULTS),
        "LeaveRequest": (requests.LeaveRequest, requests.LEAVE_DEFAULTS),
    }

    def test_have_the_fields_and_types_of_the_schemas(self):
        self.assertEqual(self.TYPES.keys(), GIVEN["requests"].keys())
        for name, (cls, _) in self.TYPES.items():
            schema = of_schema(GIVEN["requests"][name])
            self.assertEqual(as_far_as(of_type(cls), schema), schema, name)

    def test_have_the_defaults_of_the_schemas(self):
        for name, (_, defaults) in self.TYPES.items():
            self.assertEqual(defaults, defaults_of(GIVEN["requests"][name]), name)

    def test_are_what_the_calls_of_a_policy_take_under_the_same_names_with_the_same_defaults(self):
        """But for the holder, of which a call takes the name, and weights, which may be a path."""
        for name, call in (
            ("PublishRequest", aio.Policy.publish),
            ("BeginRequest", aio.Policy.transfer),
            ("SleepRequest", aio.Policy.sleep),
            ("WakeRequest", aio.Policy.wake),
            ("JoinRequest", aio.Policy.join),
            ("DrainRequest", aio.Policy.drain),
            ("LeaveRequest", aio.Policy.leave),
        ):
            cls, defaults = self.TYPES[name]
            taken = {one.name: one.default for one in inspect.signature(call).parameters.values() if one.name != "self"}
            self.assertEqual(taken.keys(), get_type_hints(cls).keys(), name)
            given = {field: default for field, default in taken.items() if default is not inspect.Parameter.empty}
            self.assertEqual({**given, **defaults}, given, name)
            ours, theirs = get_type_hints(call), get_type_hints(cls)
            for field in taken.keys() - {"holder", "weights"}:
                self.assertEqual(of_type(ours[field]), of_type(theirs[field]), f"{name}.{field}")

    def test_a_stream_has_the_fields_of_a_batch_but_those_of_its_end(self):
        batch, stream = (requests.BatchRequest.__annotations__, requests.StreamRequest.__annotations__)
        self.assertEqual(batch.keys() - stream.keys(), {"completion", "fork", "min_valid", "rollout_workflows"})

    def test_name_the_first_field_in_which_they_differ(self):
        there = {"samples": {"path": "a.jsonl"}, "generation": {"temperature": 0.5}}
        filled = with_defaults({**there, "num_repeats": 1}, requests.BATCH_DEFAULTS)
        self.assertIsNone(first_difference(with_defaults(there, requests.BATCH_DEFAULTS), filled))
        here = with_defaults({**there, "generation": {}}, requests.BATCH_DEFAULTS)
        self.assertEqual(first_difference(filled, here), "generation.temperature: 0.5 there, 1 here")
        asked, other = ({"message_log": [{"role": "user", "content": text}]} for text in ("a", "b"))
        self.assertEqual(first_difference(asked, other), "message_log.0.content: 'a' there, 'b' here")
        self.assertEqual(first_difference({"a": [1]}, {"a": [1, 2]}), "a: [1] there, [1, 2] here")


class Results(unittest.TestCase):
    maxDiff = None
    TYPES = {"Row": rows.RowColumns, "BatchResult": answers.BatchResult, "StepResult": answers.StepResult}

    def test_have_the_fields_and_types_of_the_schemas(self):
        self.assertEqual(self.TYPES.keys(), GIVEN["results"].keys())
        for name, cls in self.TYPES.items():
            schema = of_schema(GIVEN["results"][name])
            self.assertEqual(as_far_as(of_type(cls), schema), schema, name)

    def test_have_the_order_of_the_schemas(self):
        self.assertEqual(list(rows.RowColumns.__annotations__), list(GIVEN["results"]["Row"]["properties"]))


class Faults(unittest.TestCase):
    def test_each_type_of_the_project_has_a_class(self):
        self.assertEqual([name for name in GIVEN["faults"] if not hasattr(faults, name)], [])
