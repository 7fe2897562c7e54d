"""Of which distribution rows are, beside that of a trainer's loss: what only the rows say."""

import json
import unittest
from pathlib import Path

import two_turns
from durable_rollouts.integrations.sampling import check_rows

with Path(__file__).with_name("gym_agent_rows.jsonl").open(encoding="utf-8") as lines:
    AGENTS = [json.loads(line) for line in lines]


def of_agent(**params):
    """A row of an agent of NeMo Gym that asks its model server so."""
    row, info = AGENTS[0], AGENTS[0]["extra_env_info"]
    given = json.loads(info["row"])
    given["responses_create_params"] |= params
    return {**row, "extra_env_info": {**info, "row": json.dumps(given)}}


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

    def test_an_agent_of_nemo_gym_that_samples_by_its_own_settings_is_refused_by_their_name(self):
        check_rows([of_agent(), of_agent(temperature=None), of_agent(temperature=1.0, top_p=1)], 1.0)
        check_rows([of_agent(), of_agent(temperature=0.7)], 0.7)
        name = AGENTS[0]["rollout_id"]
        for params, what in (({"temperature": 0.6}, "temperature: expected .* = 0.6, .* got 1"), ({"top_p": 0.9}, "top_p: expected 1, .* got 0.9")):
            with self.subTest(what), self.assertRaisesRegex(ValueError, what) as raised:
                check_rows([of_agent(**params)], 1.0)
            self.assertIn(f"{name}: responses_create_params.", str(raised.exception))
