"""A table of rollouts: the same columns whatever is in it, and the rows again."""

import copy
import json
import sys
import tempfile
import unittest
import weakref
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from durable_rollouts import StoreFault, export, to_arrays
from durable_rollouts.export.parquet_file import ROWS_AT_ONCE
from test_arrays import row, short
from test_sequences import row as tree
from test_tables import FAILURE, rows_of_all_kinds

NUMBER = 2**70
FOREIGN = [{"own": "text", "rest": 1}, {"own": 1}, {"own": NUMBER}, {"own": [1, "a", None]}, {"own": {}}, {"own": {"a": {}}}, {"own": None}, {}]
STATES = [{}, {"a": 1}, {"a": "1"}, {"a": {"b": []}}, {"c": [1.0, 1]}]


def of_all_kinds():
    agents = Path(__file__).with_name("gym_agent_rows.jsonl").read_text(encoding="utf-8").splitlines()
    called = row(extra_env_info={}, top=1)
    called["message_log"][1] |= {
        "generation_top_logprobs": [[[3, -0.5], [4, -1.5]], []],
        "tool_calls": [{"id": "1", "name": "f", "arguments": "{}"}],
        "prompt_logprobs": [None, -1.5],
    }
    others = [row(**one, row=at) for at, one in enumerate(FOREIGN)] + [row(extra_env_info=one) for one in STATES]
    unread = tree(number=2)
    unread["sequences"][0] |= {"train": False, "why": "unread", "train_mask": [], "parent": None}
    ended = row(program_end={"code": None, "signal": "SIGKILL", "tail": "", "submission": None, "metadata": {"a": [1, "b"]}})
    return [*rows_of_all_kinds(), *map(json.loads, agents), *others, called, tree(number=1), unread, ended, FAILURE, row(rewards={"a": 1, "b c": 0.5})]


def without_none(row):
    """A column without a value is absent."""
    optional = row.keys() - {"logprobs_mode"}
    return {name: value for name, value in row.items() if value is not None or name == "own" or name not in optional}


class Counted(dict):
    """A row that can be asked whether it lives."""


class Parquet(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.file = self.folder / "rows.parquet"

    def again(self, rows):
        count = export.parquet(rows, self.file)
        read = list(export.rows(pq.read_table(self.file).to_pylist()))
        self.assertEqual(count, len(read))
        return read

    def test_has_the_rows_that_it_was_made_of_also_where_their_types_differ(self):
        given = of_all_kinds()
        for at, (one, read) in enumerate(zip(given, self.again(copy.deepcopy(given)), strict=True)):
            with self.subTest(at):
                self.assertEqual(read, without_none({"logprobs_mode": None, **one}))
        self.assertGreater(len(given), 25)

    def test_keeps_numbers_that_no_column_of_arrow_holds(self):
        [read] = self.again([row(own=NUMBER, extra_env_info={"id": 2**53 + 1, "one": 1.0})])
        self.assertEqual(json.dumps([read["own"], read["extra_env_info"]]), json.dumps([NUMBER, {"id": 2**53 + 1, "one": 1.0}]))

    def test_has_one_schema_for_all_rows_and_for_none(self):
        schemas = []
        for given in ([], [row()], [short(masked=[])], of_all_kinds()):
            export.parquet(given, self.file)
            schemas.append(pq.read_schema(self.file))
        for one in schemas[1:]:
            self.assertTrue(one.equals(schemas[0]), one)
        self.assertEqual(schemas[0].field("message_log").type.value_type.field("token_ids").type, pa.list_(pa.int64()))
        unknown = [field.name for field in schemas[0] if pa.types.is_null(field.type)]
        self.assertEqual(unknown, [])

    def test_tells_an_empty_list_from_none(self):
        masked = [one.get("masked") for one in self.again([row(masked=[]), row(), row(masked=[{"start": 0, "end": 1}])])]
        self.assertEqual(masked, [[], None, [{"start": 0, "end": 1}]])

    def test_gives_equal_arrays(self):
        rows = [*rows_of_all_kinds(), tree(number=1)]
        expected = to_arrays(rows, require_logprobs=False)
        arrays = to_arrays(self.again(rows), require_logprobs=False)
        for field in ("input_ids", "loss_mask", "logprobs", "rewards", "versions", "group_ids", "rollout_ids"):
            np.testing.assert_array_equal(getattr(arrays, field), getattr(expected, field), field)

    def test_keeps_texts_with_half_of_a_surrogate_pair_and_pictures_apart_from_texts_that_look_alike(self):
        shown, looks = row(), row()
        shown["message_log"][0]["content"] = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "u"}}]
        looks["message_log"][0]["content"] = json.dumps(shown["message_log"][0]["content"])
        self.assertEqual(self.again([shown, looks]), [without_none(shown), without_none(looks)])
        half = row(own="\ud83d", extra_env_info={"\udc00": "漢"})
        half["message_log"][0]["content"] = "a \ud83d b 😀 c"
        [read] = self.again([half])
        self.assertEqual(read["message_log"][0]["content"], "a \ufffd b 😀 c")
        self.assertEqual((read["own"], read["extra_env_info"]), (half["own"], half["extra_env_info"]))

    def test_is_not_written_where_a_value_does_not_fit_and_names_rollout_and_column(self):
        self.file.write_text("before")
        wrong = row()
        wrong["message_log"][1]["token_ids"] = [1, "2"]
        for given, said in (
            ({"turn_count": 2**63}, "turn_count: "),
            ({"turn_count": 1.5}, "turn_count: expected int, got 1.5"),
            ({"total_reward": True}, "total_reward: expected float or int, got True"),
            ({"total_reward": "high"}, "total_reward: "),
            ({"message_log": "text"}, "message_log: expected a list, got 'text'"),
            ({"message_log": ["text"]}, "message_log: expected an object, got 'text'"),
            ({"message_log": wrong["message_log"]}, "message_log: token_ids: expected int, got '2'"),
            ({"stop_reason": 1}, "stop_reason: expected a text, got 1"),
            ({"own": {1, 2}}, ".*set is not JSON serializable"),
        ):
            with self.subTest(given), self.assertRaisesRegex(ValueError, f"^b/0-0: {said}"):
                export.parquet([row(rollout_id="b/1-0"), row(**given)], self.file)
        self.assertEqual([one.name for one in self.folder.iterdir()], ["rows.parquet"])
        self.assertEqual(self.file.read_text(), "before")

    def test_refuses_what_has_no_rows_by_name(self):
        lines = self.folder / "rollouts.jsonl"
        lines.write_text(json.dumps(row()) + "\n" + json.dumps(row())[:40])
        with self.assertRaisesRegex(ValueError, "rollouts.jsonl, line 2: expected JSON, got something else"):
            export.parquet(lines, self.file)
        with self.assertRaisesRegex(ValueError, "^rows, line 2: expected a rollout with its rollout_id, got 5"):
            export.parquet([row(), 5], self.file)
        for given in (5, None, row()):
            with self.assertRaisesRegex(TypeError, "^expected a batch, a step, their result, a path of rollouts.jsonl, or rows, got "):
                export.parquet(given, self.file)
        with self.assertRaisesRegex(ValueError, "^expected the columns of export.parquet, got a record without .*message_log"):
            list(export.rows([{"rollout_id": "b/0-0"}]))
        self.assertEqual([one.name for one in self.folder.iterdir()], ["rollouts.jsonl"])

    def test_of_a_result_has_as_many_rows_as_it_counts_and_failures_where_asked(self):
        for name, rows in (("rollouts", [row(), row(repeat=1)]), ("failures", [FAILURE])):
            (self.folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
        files = {name: str(self.folder / f"{name}.jsonl") for name in ("rollouts", "failures")}
        counts = {"completed": 2, "failed": 1, "timed_out": 0, "stopped": 0, "cancelled": 0}
        result = {"counts": counts, "files": files, "metrics": {}}
        self.assertEqual(export.parquet(result, self.file), 2)
        self.assertEqual(export.parquet(result, self.file, failures=True), 3)
        self.assertEqual(pq.read_table(self.file)["failure"].to_pylist()[2]["type"], "TimedOut")
        with self.assertRaisesRegex(StoreFault, "expected 3 rows"):
            export.parquet({**result, "counts": {**counts, "completed": 3}}, self.file)

    def test_warns_of_a_field_that_a_later_release_has_within_a_message(self):
        later = row()
        later["message_log"][0]["mood"] = "good"
        with self.assertWarnsRegex(UserWarning, "^RowMessage: mood is of a later release, and left out"):
            self.again([later])
        [read] = self.again([row(mood="good")])
        self.assertEqual(read["mood"], "good")

    def test_holds_few_rows_at_once(self):
        alive = weakref.WeakSet()
        most = 0

        def many():
            nonlocal most
            for number in range(10 * ROWS_AT_ONCE):
                one = Counted(row(row=number))
                one.__class__.__hash__ = object.__hash__
                alive.add(one)
                most = max(most, len(alive))
                yield one

        self.assertEqual(export.parquet(many(), self.file), 10 * ROWS_AT_ONCE)
        self.assertLessEqual(most, ROWS_AT_ONCE + 2)

    def test_has_row_groups_that_a_reader_can_hold(self):
        log = [{"role": "user", "content": "", "token_ids": list(range(250_000))}]
        export.parquet((row(row=number, message_log=log) for number in range(2 * 3 * ROWS_AT_ONCE)), self.file)
        groups = pq.read_metadata(self.file)
        self.assertGreater(groups.num_row_groups, 1)
        for at in range(groups.num_row_groups):
            self.assertLess(groups.row_group(at).total_byte_size, 2**28)

    def test_without_its_package_names_what_to_install(self):
        with mock.patch.dict(sys.modules, {"pyarrow.parquet": None}), self.assertRaisesRegex(ImportError, r'pip install "durable-rollouts\[parquet\]"'):
            export.parquet([row()], self.file)
