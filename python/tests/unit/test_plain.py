"""Requests as plain JSON: what is taken, and what is refused by field."""

import dataclasses
import enum
import itertools
import json
import math
import random
import unittest
import uuid
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
from durable_rollouts import InvalidBatchRequest
from durable_rollouts.plain import MOST_ITEMS, compact, plain, raw_json


class Colour(str, enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Named(enum.Enum):
    ONE = 1


@dataclasses.dataclass
class Extra:
    seed: np.int64


class Model:
    """As pydantic's."""

    def model_dump(self):
        return {"answer": np.float32(0.5)}


class Table:
    """As pandas' DataFrame: iterating over it gives its columns."""

    def keys(self):
        return ["a"]

    def __iter__(self):
        return iter(["a"])


class NotATime(datetime):
    """As pandas' NaT, which is a datetime and equals nothing."""

    def __eq__(self, other):
        return False

    __hash__ = datetime.__hash__


class Tensor:
    """As torch's and jax's."""

    def tolist(self):
        return [[1, 2], [3, 4]]


def made(value):
    return plain(value, fault=InvalidBatchRequest)


class Taken(unittest.TestCase):
    def test_values_of_python_and_numpy_are_those_of_json(self):
        id = uuid.UUID(int=7)
        for given, wanted in (
            (np.int64(2**63 - 25), 2**63 - 25),
            (2**200, 2**200),
            (np.float64(0.5), 0.5),
            (np.float16(0.5), 0.5),
            (np.bool_(True), True),
            (np.str_("a"), "a"),
            (np.array(3), 3),
            (np.array([[1, 2], [3, 4]], dtype=np.uint8), [[1, 2], [3, 4]]),
            (np.array([{"a": np.int8(1)}, None], dtype=object), [{"a": 1}, None]),
            (Tensor(), [[1, 2], [3, 4]]),
            (Path("samples.jsonl"), "samples.jsonl"),
            ((n for n in range(3)), [0, 1, 2]),
            (range(2), [0, 1]),
            ({"a": 1}.values(), [1]),
            ((1, (2,)), [1, [2]]),
            (Colour.RED, "red"),
            (Level.HIGH, 3),
            ({3: "c", 1: "a"}, {"3": "c", "1": "a"}),
            ({np.str_("a"): None}, {"a": None}),
            (datetime(2026, 1, 2, tzinfo=timezone.utc), "2026-01-02T00:00:00+00:00"),
            (id, str(id)),
            (Extra(np.int64(4)), {"seed": 4}),
            (Model(), {"answer": 0.5}),
        ):
            with self.subTest(repr(given)):
                self.assertEqual(made(given), wanted)
                self.assertEqual(json.loads(compact(made(wanted))), wanted)

    def test_a_generator_is_read_once(self):
        samples = ({"task_name": str(n)} for n in range(3))
        self.assertEqual(made({"samples": samples}), {"samples": [{"task_name": "0"}, {"task_name": "1"}, {"task_name": "2"}]})

    def test_keys_keep_their_order_on_the_way(self):
        given = {"zeta": {"10": 1, "9": 2}, "alpha": 0}
        self.assertEqual(raw_json(made(given)).payload.data, b'{"zeta":{"10":1,"9":2},"alpha":0}')


class Refused(unittest.TestCase):
    def test_by_field_what_json_cannot_hold(self):
        sample = lambda value: {"samples": [{}, {"extra_env_info": {"answer": value}}]}  # noqa: E731
        at = "samples.1.extra_env_info.answer"
        for value, said in (
            (math.nan, "expected a finite number, which JSON can hold, got nan; an empty cell of pandas is NaN: leave the field out, or give None"),
            (np.float32("nan"), "expected a finite number, which JSON can hold, got nan"),
            (-math.inf, "expected a finite number, which JSON can hold, got -inf"),
            (Decimal("0.10"), r"expected text, .*, got Decimal\('0.10'\) of type decimal.Decimal; convert it, for example with str\(\) or float\(\)"),
            (Fraction(1, 3), "got Fraction"),
            (1 + 2j, "of type complex"),
            (np.complex64(1), "of type complex"),
            (b"bytes", "of type bytes"),
            ({"a", "b"}, "of type set"),
            (frozenset(), "of type frozenset"),
            (timedelta(1), "of type datetime.timedelta"),
            (np.datetime64("2026-01-01", "ns"), "of type numpy.datetime64"),
            (np.array([1], dtype="m8[s]"), "of type numpy.ndarray"),
            (np.array([(1, 2)], dtype=[("a", "i4"), ("b", "i4")]), "of type numpy.ndarray"),
            (Named.ONE, "of type .*Named"),
            (object(), "of type object"),
            (dict, "of type type"),
            (Extra, "of type type"),
            (Table(), "of type .*Table"),
            (NotATime(2026, 1, 1), "of type .*NotATime"),
            (len, "of type builtin_function_or_method"),
            (2**5000, "expected an integer of at most 1024 bits, got one of 5001"),
            ("a\ud800b", r"expected text that UTF-8 can hold, got '\\ud800' at position 1"),
        ):
            with self.subTest(repr(type(value))), self.assertRaisesRegex(InvalidBatchRequest, f"^{at}: .*{said}"):
                made(sample(value))

    def test_a_nan_within_an_array_by_its_place(self):
        with self.assertRaisesRegex(InvalidBatchRequest, r"^probe\.logprobs\.1\.0: expected a finite number"):
            made({"probe": {"logprobs": np.array([[0.5], [np.nan]])}})

    def test_keys_that_are_no_text(self):
        for key, said in ((None, "got None"), ((1, 2), r"got \(1, 2\)"), (0.5, "got 0.5"), (True, "got True")):
            with self.assertRaisesRegex(InvalidBatchRequest, f"^metadata: expected text as a key, {said}$"):
                made({"metadata": {key: 1}})

    def test_what_has_no_end(self):
        loop = {}
        loop["loop"] = loop
        with self.assertRaisesRegex(InvalidBatchRequest, "expected at most 200 lists and objects within each other, got more$"):
            made(loop)
        with self.assertRaisesRegex(InvalidBatchRequest, f"^samples: expected at most {MOST_ITEMS} items, got more$"):
            made({"samples": itertools.repeat(0)})

    def test_whatever_is_given_is_json_or_a_refusal(self):
        leaves = [None, True, 1, -0.5, "x", math.nan, math.inf, np.int8(1), np.float64("nan"), np.array([1.5]), Decimal(1), b"", Path("a"), 2**64]
        seed = 1
        chance = random.Random(seed)

        def value(level):
            kind = chance.randrange(6) if level else 5
            if kind < 2:
                return {chance.choice(["a", 1, "b"]): value(level - 1) for _ in range(chance.randrange(3))}
            if kind < 4:
                return chance.choice([list, tuple, iter])([value(level - 1) for _ in range(chance.randrange(3))])
            return chance.choice(leaves)

        taken = 0
        for _ in range(3000):
            try:
                result = made(value(3))
            except InvalidBatchRequest:
                continue
            taken += 1
            self.assertEqual(json.loads(compact(result), parse_constant=self.fail), result, f"seed {seed}")
        self.assertGreater(taken, 100)
