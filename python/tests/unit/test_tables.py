"""Rows that a table has kept: Parquet, `datasets`, pandas and polars give each row every column of all rows."""

import copy
import json
import math
import unittest
from pathlib import Path

import numpy as np
from durable_rollouts import to_arrays, trajectories
from durable_rollouts.results import to_groups
from test_arrays import row, short, without_logprobs
from test_sequences import row as tree


class NAType:
    """As pandas' own: neither equal nor unequal to anything."""

    def __eq__(self, other):
        return self

    def __ne__(self, other):
        return self

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")


NOTHINGS = {"None": None, "NaN": math.nan, "float32 NaN": np.float32("nan"), "NA": NAType()}
FAILED = {"type": "TimedOut", "message": "late", "turn": 1}
OPTIONAL = {
    "failure": FAILED,
    "untokenized": "why",
    "agent_result": {"reward": 1},
    "masked": [{"start": 0, "end": 1}],
    "loss_multiplier": 0.5,
    "assistant_tokens": 3,
    "logprobs_mode": "processed",
    "policy_versions": [],
}


def as_table(rows, nothing):
    """The rows with the fields of all of them, in each object as deep as they go."""
    return [filled(one, shape_of(rows), nothing) for one in copy.deepcopy(rows)]


def shape_of(objects):
    fields = {}
    for one in objects:
        for name, value in one.items():
            fields.setdefault(name, []).append(value)
    return {name: inner_shape(values) for name, values in fields.items()}


def inner_shape(values):
    inner = [one for value in values for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]
    return shape_of(inner) if inner else None


def filled(one, shape, nothing):
    return {name: filled_value(one[name], inner, nothing) if name in one else nothing for name, inner in shape.items()}


def filled_value(value, shape, nothing):
    if shape is None:
        return value
    if isinstance(value, list):
        return [filled(one, shape, nothing) for one in value]
    return filled(value, shape, nothing) if isinstance(value, dict) else value


def rows_of_all_kinds():
    plain = {name: value for name, value in row().items() if name != "loss_multiplier"}
    parts = row(row=3)
    parts["message_log"][0]["content"] = [{"type": "text", "text": "t"}]
    return [
        row(),
        plain,
        short(row=1, masked=[{"start": 0, "end": 1}]),
        row(row=2, restarted_turns=[0], step=1, epoch=0, sample_row=4, replaces=0, extracted_answer="x"),
        parts,
        without_logprobs(row(row=4)),
        row(row=5, train_mask=[]),
    ]


FAILURE = row(row=1, repeat=1, failure=FAILED)


def as_pandas(value):
    if isinstance(value, dict):
        return {name: as_pandas(one) for name, one in value.items()}
    if isinstance(value, list):
        array = np.empty(len(value), object)
        array[:] = [as_pandas(one) for one in value]
        return array if any(isinstance(one, (dict, list)) for one in value) else np.array(value)
    return np.bool_(value) if isinstance(value, bool) else value


class Tables(unittest.TestCase):
    def test_have_the_arrays_of_the_rows_that_they_were_made_of(self):
        rows = rows_of_all_kinds()
        expected = to_arrays(rows, require_logprobs=False)
        for name, nothing in NOTHINGS.items():
            with self.subTest(name):
                # The columns of failures too, as in a table made of both files.
                table = as_table([*rows, FAILURE, row(untokenized="x", agent_result={"reward": 1})], nothing)[: len(rows)]
                self.assertIn("failure", table[0])
                self.assertIn("generation_logprobs", table[0]["message_log"][0])
                arrays = to_arrays(table, require_logprobs=False)
                for field in ("input_ids", "loss_mask", "logprobs", "rewards", "versions", "group_ids"):
                    np.testing.assert_array_equal(getattr(arrays, field), getattr(expected, field), field)

    def test_each_column_that_a_row_may_lack_is_absent_where_a_table_has_nothing(self):
        for column, given in OPTIONAL.items():
            without = {name: value for name, value in row().items() if name != column}
            expected = to_arrays([without])
            for name, nothing in NOTHINGS.items():
                with self.subTest(column=column, nothing=name):
                    arrays = to_arrays([{**without, column: nothing}])
                    np.testing.assert_array_equal(arrays.loss_mask, expected.loss_mask)
                    np.testing.assert_array_equal(arrays.versions, expected.versions)
                    np.testing.assert_array_equal(arrays.group_ids, expected.group_ids)
            with self.subTest(column=column, nothing="a struct"):
                if isinstance(given, dict):
                    to_arrays([{**without, column: {name: None for name in given}}])

    def test_keep_the_sequences_of_programs_beside_rollouts_without_any(self):
        read = tree(number=1, reward=0.0, calls=3, lives=1)
        unread = tree(number=2, reward=0.5)
        unread["sequences"][0] |= {"train": False, "why": "unread", "train_mask": []}
        rows = [row(), read, unread]
        expected = to_arrays(rows, require_logprobs=False)
        self.assertEqual(len(expected), 1 + 3 + 2)
        for name, nothing in NOTHINGS.items():
            with self.subTest(name):
                table = as_table([*rows, FAILURE], nothing)
                self.assertIn("why", table[1]["sequences"][0])
                arrays = to_arrays(table[: len(rows)], require_logprobs=False)
                for field in ("input_ids", "loss_mask", "logprobs", "rewards", "versions", "group_ids", "rollout_ids", "sequence"):
                    np.testing.assert_array_equal(getattr(arrays, field), getattr(expected, field), field)
                groups = to_groups(table)
                self.assertEqual(sum(len(group.rows) for group in groups), len(rows))

    def test_keep_valid_rollouts_and_failures_apart(self):
        for name, nothing in NOTHINGS.items():
            with self.subTest(name):
                valid, failed = as_table([row(row=1), FAILURE], nothing)
                [group] = to_groups([valid, failed])
                self.assertEqual((group.rows, group.failures), ([valid], [failed]))
        [group] = to_groups([row(failure={"type": None, "message": None, "turn": None})])
        self.assertEqual(len(group.rows), 1)

    def test_that_have_lost_the_column_failure_keep_failures_out(self):
        # As `Dataset.from_list` does if the first row has none.
        for stop_reason in ("timeout", "stopped", "cancelled", "failed"):
            lost = row(repeat=1, stop_reason=stop_reason)
            [group] = to_groups([row(stop_reason="max_turns"), lost])
            self.assertEqual((len(group.rows), group.failures), (1, [lost]))
            with self.assertRaisesRegex(ValueError, f"^b/0-0: .* got a failure .stop_reason {stop_reason}"):
                to_arrays([lost])

    def test_with_pictures_are_refused_by_their_message_and_others_beside_them_are_not(self):
        shown, placed = row(row=1, rollout_id="b/1-0"), row(row=1, rollout_id="b/1-0")
        shown["message_log"][2]["content"] = [{"type": "text", "text": "t"}, {"type": "image_url", "image_url": {"url": "u"}}]
        placed["message_log"][2]["pictures"] = [{"offset": 0, "length": 1, "url": "u"}]
        without = {**row(), "message_log": [{**message, "pictures": []} for message in row()["message_log"]]}
        for name, nothing in NOTHINGS.items():
            for pictured in (shown, placed):
                table = as_table([row(), without, pictured], nothing)
                for rows in (table, [as_pandas(one) for one in table]):
                    self.assertEqual(len(to_arrays(rows[:2])), 2)
                    for read in (to_arrays, trajectories):
                        with self.subTest(name), self.assertRaisesRegex(ValueError, "^b/1-0: message_log.2: expected text alone, got a picture"):
                            read(rows)

    def test_of_numpy_objects_are_read_as_pandas_gives_them(self):
        rows = rows_of_all_kinds()
        arrays = to_arrays([as_pandas(one) for one in as_table(rows, None)], require_logprobs=False)
        expected = to_arrays(rows, require_logprobs=False)
        np.testing.assert_array_equal(arrays.versions, expected.versions)
        np.testing.assert_array_equal(arrays.loss_mask, expected.loss_mask)

    def test_of_agents_and_others_group_each_by_its_own_rule(self):
        with Path(__file__).with_name("gym_agent_rows.jsonl").open(encoding="utf-8") as lines:
            agents = [json.loads(line) for line in lines]
        others = [row(row=7, logprobs_mode="unknown"), row(row=7, logprobs_mode="unknown")]
        with self.assertWarns(UserWarning):
            expected = to_arrays([*agents, *others]).group_ids
            found = to_arrays(as_table([*agents, *others], None)).group_ids
        self.assertEqual(found.tolist(), expected.tolist())
