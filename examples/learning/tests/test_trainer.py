"""The trainer's loop without a server: one that dies anywhere continues as if it had not."""

import tempfile
import unittest
from pathlib import Path

import numpy as np
from offline import Local
from run import Run, append, lines_of, read
from task import LENGTH, LETTERS, TURNS, answer_to, reward_of, samples
from trainer import CHECKPOINT_EVERY, Delivered, Settings, train


class Killed(Exception):
    pass


SOME = 8
"""Rollouts of a step: what is learned does not matter here."""


class Facts:
    """Steps that are the same whenever they are asked for; dies at one call, and remembers all of them."""

    def __init__(self, run, steps, dies_at=None):
        self.run, self.steps, self.dies_at, self.calls = run, steps, dies_at, []

    def call(self, *what):
        self.calls.append(what)
        if len(self.calls) == self.dies_at:
            raise Killed

    def publish(self, version, path, weights):
        stored = read(path)
        assert all(np.array_equal(stored[name], array) for name, array in weights.items())
        self.call("publish", version, int(stored["step"]))

    def next_step(self, step, version):
        if step not in self.steps:
            local = Local(self.run, seed=step, lag=0)
            local.publish(version, None, read(self.run.weights_file(version)))
            self.steps[step] = local.next_step(step, version).rows[:SOME]
        self.call("step", step, version)
        return Delivered(self.steps[step], str(step), "")

    def evaluate(self, step):
        self.call("evaluate", step)
        self.run.note("held_out", step=step, reward=0.0)

    def end(self):
        self.call("end")


class Deaths(unittest.TestCase):
    STEPS = 7

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.steps = {}
        self.folder = Path(folder.name)

    def play(self, name, dies_at=None):
        """All calls, before and behind the death, and the last state."""
        facts = Facts(Run(self.folder / name), self.steps, dies_at)
        settings = Settings(seed=2, steps=self.STEPS)
        try:
            return facts.calls, train(facts.run, facts, settings)
        except Killed:
            pass
        facts.calls.append("dies")
        # A new process: nothing but what is on disk.
        facts.run = Run(self.folder / name)
        return facts.calls, train(facts.run, facts, settings)

    def test_at_any_call_the_next_trainer_ends_with_the_same_weights_and_gives_no_version_two(self):
        calls, undisturbed = self.play("undisturbed")
        self.assertEqual(calls[:3], [("publish", 0, 0), ("evaluate", 0), ("step", 0, 0)])
        for place in range(1, len(calls) + 1):
            with self.subTest(dies_at=calls[place - 1]):
                told, state = self.play(f"dies-{place}", place)
                self.assertEqual((state.step, state.version), (undisturbed.step, undisturbed.version))
                for name, array in undisturbed.weights.items():
                    np.testing.assert_array_equal(state.weights[name], array)
                published = [call[1:] for call in told if call[0] == "publish"]
                self.assertEqual(len(set(published)), len({version for version, _ in published}), "a version has one step")
                self.assertEqual([version for version, _ in published], sorted(version for version, _ in published))
                self.goes_back_as_it_should(told[told.index("dies") + 1 :], calls[:place])

    def goes_back_as_it_should(self, again, before):
        """Steps behind the checkpoint are asked for again, and nothing is published before the last of them."""
        trained = max((step for kind, _, step in (call for call in before if call[0] == "publish")), default=0)
        checkpoint = trained - trained % CHECKPOINT_EVERY if trained < self.STEPS else self.STEPS
        kinds = [call for call in again if call[0] in ("step", "publish")]
        if checkpoint < trained:
            replayed = [("step", step) for step in range(checkpoint, trained)]
            self.assertEqual([call[:2] for call in kinds[: len(replayed)]], replayed)
            self.assertEqual(kinds[len(replayed)], ("publish", trained, trained))
        else:
            self.assertEqual(kinds[0], ("publish", trained, trained))

    def test_other_rows_for_a_step_that_was_published_give_a_version_of_their_own(self):
        facts = Facts(Run(self.folder / "other"), self.steps)
        train(facts.run, facts, Settings(seed=2, steps=4))
        (facts.run.folder / "checkpoints" / "4.npz").unlink()
        facts.steps = {step: rows[::-1] for step, rows in facts.steps.items()}
        facts.steps[2] = facts.steps[3]
        facts.calls = []
        state = train(Run(facts.run.folder), facts, Settings(seed=2, steps=4))
        published = [call[1:] for call in facts.calls if call[0] == "publish"]
        self.assertEqual(published, [(5, 4)])
        self.assertEqual(state.version, 5)


class Files(unittest.TestCase):
    def test_a_torn_line_costs_itself_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lines.jsonl"
            append(path, {"a": 1})
            with path.open("a") as file:
                file.write('{"a": \n')
            append(path, {"a": 2})
            self.assertEqual(list(lines_of(path)), [{"a": 1}, {"a": 2}])


class Task(unittest.TestCase):
    def test_samples_differ_and_bring_their_answers(self):
        drawn = samples(seed=1, count=576)
        self.assertEqual(len({sample["extra_env_info"]["words"][0] for sample in drawn}), 576)
        self.assertEqual(answer_to("abcdefgj"), "bcdefgha")
        self.assertEqual(answer_to("ABCDEFGJ"), "jabcdefi")

    def test_rewards_letters_in_their_places_and_nothing_behind_them(self):
        word = LETTERS[:LENGTH]
        self.assertEqual(reward_of(word, word), 1 / TURNS)
        self.assertEqual(reward_of(word + word, word), 0.5 / TURNS)
        self.assertEqual(reward_of("", word), 0)


if __name__ == "__main__":
    unittest.main()
