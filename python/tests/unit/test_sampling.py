"""Of which distribution rows are, beside that of a trainer's loss: what only the rows say."""

import unittest

import two_turns
from durable_rollouts.integrations.sampling import check_rows


class Rows(unittest.TestCase):
    def test_raw_logprobs_are_of_temperature_1_alone(self):
        raw = two_turns.row(logprobs_mode="raw")
        check_rows([raw], 1.0)
        check_rows([two_turns.row(), two_turns.row(logprobs_mode="unknown")], 0.7)
        with self.assertRaisesRegex(ValueError, r"^b/0-0: logprobs_mode: expected processed, .* divided by 0.7; got raw"):
            check_rows([two_turns.row(), raw], 0.7)

    def test_an_agents_answers_that_follow_a_structure_are_refused(self):
        with self.assertRaisesRegex(ValueError, "^b/0-0: structured_calls: expected none, .* got 2: structured: refuse"):
            check_rows([two_turns.row(structured_calls=2)], 1.0)
        check_rows([two_turns.row(structured_calls=None)], 1.0)
