"""Environments of others behind `wrap`: their interfaces, and what happens when the process dies in a rollout."""

import sys
import unittest
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rollout_environment import wrap  # noqa: E402
from rollout_environment.answers import CallFailed  # noqa: E402
from rollout_environment.calls import Direct  # noqa: E402


class Guess:
    """Gymnasium's interface: a number below ten that the seed decides."""

    made = []

    def __init__(self):
        self.played, self.closed = [], False
        Guess.made.append(self)

    def reset(self, *, seed=None, options=None):
        self.number = seed % 10
        return "Guess a number below 10.", {}

    def step(self, action):
        self.played.append(action)
        right = action == self.number
        return "Right." if right else f"Not {action}.", 1 if right else 0, right, len(self.played) == 3, {}

    def close(self):
        self.closed = True


class OldGym(Guess):
    def reset(self, *, seed=None):
        return super().reset(seed=seed)[0]

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated or truncated, info


class OpenEnv(Guess):
    """Its client's results are objects."""

    def reset(self, seed=None):
        return SimpleNamespace(observation=super().reset(seed=seed)[0], reward=None, done=False)

    def step(self, action):
        observation, reward, terminated, truncated, _ = super().step(action)
        return SimpleNamespace(observation=observation, reward=reward or None, done=terminated or truncated)


class OpenEnvClient(OpenEnv):
    """The synchronous one passes its arguments on to its server."""

    def reset(self, **arguments):
        return super().reset(**arguments)


class OpenEnvAsync(OpenEnv):
    async def reset(self, seed=None):
        return super().reset(seed=seed)


class Scalar:
    """As numpy and torch have it."""

    def __init__(self, value):
        self.value = value

    def tolist(self):
        return self.value


def answering(returned):
    class Answering(Guess):
        def step(self, action):
            return returned

    return Answering


class Rollout:
    """One rollout at a server, whose process may be another one at each turn."""

    def __init__(self, wrapped, sample, session="b/0-0"):
        self.log = list(sample["message_log"])
        self.server = Direct(wrapped)
        given = {"session": session, "message_log": self.log, "metadata": sample["extra_env_info"]}
        self.state = self.server.call("begin", given)["metadata"]

    def says(self, text):
        self.log = [*self.log, {"role": "assistant", "content": text}]
        answer = self.ask()
        self.log = [*self.log, answer["observations"][0]]
        self.state = answer["metadata"][0]
        return answer["rewards"][0], answer["terminateds"][0], answer["truncateds"][0]

    def ask(self):
        return self.server.call("step", [self.log], [self.state])

    def dies(self, wrapped):
        self.server = Direct(wrapped)


def game(of=Guess):
    return wrap(lambda info: of(), action=int)


def sample_of(of=Guess):
    [sample] = game(of).samples([{"seed": 17}], "guess")
    return sample


class Wrapping(unittest.TestCase):
    def setUp(self):
        Guess.made.clear()

    def test_a_sample_has_the_first_observation_and_its_object_is_closed(self):
        sample = sample_of()
        self.assertEqual(sample["message_log"], [{"role": "user", "content": "Guess a number below 10."}])
        self.assertEqual((sample["extra_env_info"], sample["task_name"]), ({"seed": 17}, "guess"))
        self.assertTrue(Guess.made[0].closed)

    def test_each_interface_plays_the_same(self):
        for of in (Guess, OldGym, OpenEnv, OpenEnvClient):
            rollout = Rollout(game(of), sample_of(of))
            self.assertEqual(rollout.says("3"), (0.0, False, False), of)
            self.assertEqual(rollout.says("7"), (1.0, True, False), of)
            self.assertEqual(rollout.log[-1], {"role": "environment", "content": "Right."})

    def test_a_limit_of_the_object_truncates(self):
        rollout = Rollout(game(), sample_of())
        self.assertEqual([rollout.says("1") for _ in range(3)][-1], (0.0, False, True))

    def test_another_process_plays_the_turns_again_and_goes_on(self):
        rollout = Rollout(game(), sample_of())
        rollout.says("3")
        rollout.says("4")
        rollout.dies(game())
        self.assertEqual(rollout.says("7"), (1.0, True, True))
        self.assertEqual(Guess.made[-1].played, [3, 4, 7])

    def test_a_turn_that_is_asked_again_is_not_played_again(self):
        rollout = Rollout(game(), sample_of())
        rollout.log = [*rollout.log, {"role": "assistant", "content": "3"}]
        self.assertEqual(rollout.ask(), rollout.ask())
        self.assertEqual(Guess.made[-1].played, [3])

    def test_an_object_that_fails_in_a_turn_is_made_anew(self):
        rollout = Rollout(game(), sample_of())
        rollout.says("3")
        rollout.log = [*rollout.log, {"role": "assistant", "content": "four"}]
        with self.assertRaisesRegex(CallFailed, "invalid literal"):
            rollout.ask()
        rollout.log[-1] = {"role": "assistant", "content": "4"}
        rollout.ask()
        self.assertEqual(Guess.made[-1].played, [3, 4])

    def test_one_that_shows_something_else_when_it_is_played_again_is_a_fault(self):
        class Changing(Guess):
            def step(self, action):
                observation, *rest = super().step(action)
                return f"{observation} {len(Guess.made)}", *rest

        rollout = Rollout(game(Changing), sample_of(Changing))
        rollout.says("3")
        rollout.dies(game(Changing))
        with self.assertRaisesRegex(CallFailed, "turn 0: expected the observation that the policy has read, 'Not 3. 2'"):
            rollout.says("4")

    def test_a_prompt_without_the_first_observation_is_a_fault(self):
        sample = {**sample_of(), "message_log": [{"role": "user", "content": "Play."}]}
        with self.assertRaisesRegex(CallFailed, "expected the first observation in the prompt"):
            Rollout(game(), sample).says("3")

    def test_what_a_prompt_has_of_an_assistant_is_no_turn(self):
        shown = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "5"}]
        rollout = Rollout(game(), {**sample_of(), "message_log": [*shown, *sample_of()["message_log"]]})
        rollout.says("3")
        self.assertEqual(Guess.made[-1].played, [3])

    def test_an_object_that_is_to_be_awaited_is_refused_by_the_method(self):
        with self.assertRaisesRegex(TypeError, r"^reset: expected what it returns, got something to await.*client\.sync"):
            game(OpenEnvAsync).samples([{"seed": 17}], "guess")

    def test_an_end_closes_the_object_and_there_may_be_none(self):
        rollout = Rollout(game(), sample_of())
        rollout.says("3")
        for _ in range(2):
            rollout.server.call("end", rollout.state, "b/0-0")
        self.assertTrue(Guess.made[-1].closed)

    def test_what_is_no_step_is_refused_by_what_came(self):
        class Wrong(Guess):
            def step(self, action):
                return "done"

        with self.assertRaisesRegex(CallFailed, "step: expected .observation, reward.*got 'done'") as caught:
            Rollout(game(Wrong), sample_of(Wrong)).says("3")
        self.assertEqual(caught.exception.status, 422)

    def test_what_is_no_verdict_is_a_malformed_answer_and_never_a_reward(self):
        turn = ("Seen.", 1.0, True, False, {})
        for name, returned in (
            ("reward.*got None", SimpleNamespace(observation="Seen.", reward=None, done=True)),
            ("reward.*got ''", SimpleNamespace(observation="Seen.", reward="", done=True)),
            ("reward.*got '0'", SimpleNamespace(observation="Seen.", reward="0", done=False)),
            ("reward.*got None", ("Seen.", None, False, False, {})),
            ("reward.*got '1.0'", (turn[0], "1.0", *turn[2:])),
            ("reward.*got bytes", (turn[0], b"1", *turn[2:])),
            (r"reward.*got \[1.0\]", (turn[0], [1.0], *turn[2:])),
            ("reward.*finite number, got nan", (turn[0], float("nan"), *turn[2:])),
            ("terminated.*got 'False'", (*turn[:2], "False", *turn[3:])),
            ("terminated.*got None", (*turn[:2], None, *turn[3:])),
            ("truncated.*got 2", (*turn[:3], 2, {})),
            ("done.*got 'False'", SimpleNamespace(observation="Seen.", reward=1.0, done="False")),
            ("done.*got 0.5", ("Seen.", 1.0, 0.5, {})),
            ("TimeLimit.truncated.*got 'no'", ("Seen.", 1.0, True, {"TimeLimit.truncated": "no"})),
        ):
            with self.subTest(returned), self.assertRaisesRegex(CallFailed, name) as caught:
                Rollout(game(answering(returned)), sample_of()).says("3")
            self.assertEqual(caught.exception.status, 422)

    def test_a_verdict_may_be_of_numpy_or_a_truth_value(self):
        for reward, done in ((Scalar(0.5), Scalar(True)), (True, 1), (1, Scalar(1.0))):
            wrapped = game(answering(("Seen.", reward, done, False, {})))
            self.assertEqual(Rollout(wrapped, sample_of()).says("3"), (float(getattr(reward, "value", reward)), True, False))

    def test_a_step_of_openenv_that_does_not_end_may_have_no_reward_yet(self):
        wrapped = game(answering(SimpleNamespace(observation="Seen.", reward=None, done=False)))
        self.assertEqual(Rollout(wrapped, sample_of()).says("3"), (0, False, False))

    def test_a_limit_of_older_gym_truncates(self):
        for info, ended in (({"TimeLimit.truncated": True}, (0, False, True)), ({"TimeLimit.truncated": False}, (0, True, False))):
            self.assertEqual(Rollout(game(answering(("Seen.", 0, True, info))), sample_of()).says("3"), ended)


if __name__ == "__main__":
    unittest.main()
