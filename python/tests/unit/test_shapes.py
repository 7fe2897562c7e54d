"""Rows of any shape as samples."""

import dataclasses
import re
import unittest

from durable_rollouts import InvalidBatchRequest
from durable_rollouts.shapes import Shape

QA = {"id": 7, "question": "6 times 7?", "answer": "42"}
MAPS = {"question": "prompt", "answer": "extra_env_info.ground_truth"}
ASKED = [{"role": "user", "content": "6 times 7?"}]


def samples(rows, columns=None, task_name=None):
    return list(Shape(columns, task_name).samples(rows))


class Shapes(unittest.TestCase):
    def refused(self, message, rows, *shape):
        with self.assertRaisesRegex(InvalidBatchRequest, f"^{re.escape(message)}"):
            samples(rows, *shape)

    def test_samples_come_through_as_they_are(self):
        sample = {"message_log": ASKED, "task_name": "math", "own": [1]}
        self.assertEqual(samples(iter([sample])), [sample])
        self.assertEqual(samples([sample], None, "other"), [sample], "which has its task")

    def test_columns_become_prompt_and_what_the_environment_gets_and_others_stay(self):
        mapped = {"id": 7, "message_log": ASKED, "extra_env_info": {"ground_truth": "42"}, "task_name": "math"}
        self.assertEqual(samples([QA], MAPS, "math"), [mapped])
        messages = [{"role": "system", "content": "Be brief."}, *ASKED]
        talk = {"messages": messages, "level": "math", "extra_env_info": {"seed": 1}, "answer": "42"}
        shape = {"messages": "prompt", "level": "task_name", "answer": "extra_env_info.ground_truth"}
        self.assertEqual(
            samples([talk], shape),
            [{"message_log": messages, "task_name": "math", "extra_env_info": {"seed": 1, "ground_truth": "42"}}],
        )

    def test_a_column_of_ones_own_that_is_called_like_one_of_samples_is_named_with_what_renames_it(self):
        row = {"message_log": [{"role": "user", "content": "?"}], "task_name": "math"}
        for name, value in (("length", "12 cm"), ("length", True), ("loss_multiplier", "1"), ("stop_strings", "a,b"), ("task_name", 7)):
            with self.subTest(name), self.assertRaisesRegex(InvalidBatchRequest, rf"^samples\.1\.{name}: expected .*, which a sample has there, got .*; a column of your own: columns=\{{'{name}': 'extra_env_info\.{name}'\}}$"):
                list(Shape().samples([row, {**row, name: value}]))
        [sample] = Shape({"length": "extra_env_info.length"}).samples([{**row, "length": "12 cm"}])
        self.assertEqual(sample["extra_env_info"], {"length": "12 cm"})
        for good in ({"length": 12, "loss_multiplier": 0.5, "stop_strings": None}, {"length": None, "stop_strings": ["a"]}):
            self.assertEqual(list(Shape().samples([{**row, **good}])), [{**row, **good}])

    def test_texts_are_prompts_where_their_task_is_known(self):
        self.assertEqual(samples(("6 times 7?" for _ in range(1)), None, "math"), [{"message_log": ASKED, "task_name": "math"}])

    def test_rows_may_be_objects_that_stand_for_json(self):
        @dataclasses.dataclass
        class Row:
            question: str

        self.assertEqual(samples([Row("6 times 7?")], {"question": "prompt"}, "math"), [{"message_log": ASKED, "task_name": "math"}])

    def test_what_maps_a_row_is_guessed(self):
        self.refused(
            "samples.1: expected a sample, whose prompt is message_log, got columns id, question, answer; probably "
            "columns={'question': 'prompt', 'answer': 'extra_env_info.ground_truth'}, "
            'task_name="a key of environments in temporal.yaml" maps them; '
            "a column that the environment reads by its own name: 'answer': 'extra_env_info.answer'",
            [{"message_log": ASKED}, QA],
        )
        self.refused("samples.0: expected a sample, whose prompt is message_log, got columns prompt; probably columns={'prompt': 'prompt'} maps them", [{"prompt": "x"}], None, "t")
        self.refused(
            "samples.0: expected a sample, whose prompt is message_log, got columns prompt, number; probably columns={'prompt': 'prompt'} maps them; "
            "a column that the environment reads by its own name: 'number': 'extra_env_info.number'",
            [{"prompt": "x", "number": 7}],
            None,
            "t",
        )
        # A guess that is followed is right.
        self.assertEqual(samples([QA], MAPS, "t")[0]["message_log"], ASKED)

    def test_what_looks_like_nothing_known_goes_to_the_worker(self):
        for row in ({"a": 1}, 7, None, "text", []):
            self.assertEqual(samples([row]), [row])

    def test_wrong_columns_are_refused_by_name(self):
        self.refused("columns.answer: expected prompt, extra_env_info.NAME, message_log, task_name", [], {"answer": "ground_truth"})
        with self.assertRaisesRegex(InvalidBatchRequest, "got 'ground_truth'; for the environment: 'extra_env_info.ground_truth'$"):
            samples([], {"answer": "ground_truth"})
        self.refused("columns: expected one column for prompt, got a and b", [], {"a": "message_log", "b": "prompt"})
        self.refused('columns: expected a dictionary such as {"question": "prompt"}, got [', [], ["question"])
        self.refused("samples.0: expected column 'frage' (columns), got id, question, answer", [QA], {"frage": "prompt"})
        self.refused("samples.0.id: expected text or a list of messages as prompt, got 7", [QA], {"id": "prompt"})
        self.refused("task_name: expected text, got 7", [QA], MAPS, 7)

    def test_what_json_has_not_is_refused_by_row_and_field(self):
        self.refused("samples.1.extra_env_info.x: expected a finite number", [{}, {"extra_env_info": {"x": float("nan")}}])

    def test_tables_and_texts_are_no_rows(self):
        class Table:
            columns = ["question"]

        self.refused("samples: expected a list, an iterable or a data set of rows, got Table", Table())
        with self.assertRaisesRegex(InvalidBatchRequest, r'rows of a table: to_dict\("records"\) of pandas'):
            samples(Table())
        self.refused("samples: expected a list, an iterable or a data set of rows, got str 'a.jsonl'; a file below inputs_dir", "a.jsonl")
        self.refused("samples: expected a list, an iterable or a data set of rows, got NoneType", None)

    def test_of_a_file_are_not_mapped(self):
        for shape in (Shape(MAPS), Shape(None, "math")):
            with self.assertRaisesRegex(InvalidBatchRequest, "^(columns|task_name): expected rows as samples, got a file"):
                shape.refuse_file()
        Shape().refuse_file()
