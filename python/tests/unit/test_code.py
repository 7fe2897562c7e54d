import functools
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from durable_rollouts.code import digest_of

SOURCE = """
LIMIT = 3
WORDS = {"a", "b", "c", "d"}

def helper(text):
    return len(text) > LIMIT

class Game:
    worth = 1
    def step(self, logs, states):
        return helper(logs) and self.worth

def reward(reply, sample, scale=2):
    return scale * helper(reply) * (reply in {"x", "y", "z"}) * (reply in WORDS)
"""


def given(source=SOURCE, name="reward", lines=0, module="__main__"):
    space = {"__name__": module}
    exec(compile("\n" * lines + source, f"/tmp/cell-{lines}.py", "exec"), space)  # noqa: S102
    return space[name]


class Digests(unittest.TestCase):
    def assert_differs(self, old, new, name="reward"):
        self.assertIn(old, SOURCE)
        self.assertNotEqual(digest_of(given(name=name)), digest_of(given(SOURCE.replace(old, new), name=name)), new)

    def test_of_code_that_stands_elsewhere_or_is_defined_again_are_the_same(self):
        for name in ("reward", "Game"):
            self.assertEqual(digest_of(given(name=name)), digest_of(given(name=name, lines=7)))
            self.assertEqual(digest_of(given(name=name)), digest_of(given(name=name, module="trainer")))

    def test_are_the_same_in_each_process_also_of_sets(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "mine.py").write_text(SOURCE)
            program = "import mine; from durable_rollouts.code import digest_of; print(digest_of(mine.reward), digest_of(mine.Game), digest_of(mine.Game()))"
            paths = os.pathsep.join([folder, *sys.path])
            seen = {
                subprocess.run(
                    [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": str(seed)}, capture_output=True, check=True
                ).stdout
                for seed in (1, 2, 3)
            }
        self.assertEqual(len(seen), 1, seen)

    def test_of_other_instructions_constants_defaults_helpers_and_data_differ(self):
        self.assert_differs("scale * helper", "scale + helper")
        self.assert_differs('"z"', '"w"')
        self.assert_differs("scale=2", "scale=3")
        self.assert_differs("len(text) > LIMIT", "len(text) >= LIMIT")
        self.assert_differs("LIMIT = 3", "LIMIT = 4")
        self.assert_differs('"d"}', '"e"}')
        self.assert_differs("worth = 1", "worth = 2", "Game")
        self.assert_differs("len(text) > LIMIT", "len(text) >= LIMIT", "Game")

    def test_of_what_a_function_closes_over_and_an_object_holds_differ(self):
        def scaled(by):
            return lambda reply, sample: by * len(reply)

        self.assertEqual(digest_of(scaled(1)), digest_of(scaled(1)))
        self.assertNotEqual(digest_of(scaled(1)), digest_of(scaled(2)))
        add = lambda by, reply, sample: by  # noqa: E731
        self.assertNotEqual(digest_of(functools.partial(add, 1)), digest_of(functools.partial(add, 2)))
        one, two = given(name="Game")(), given(name="Game")()
        self.assertEqual(digest_of(one), digest_of(two))
        two.worth = 5
        self.assertNotEqual(digest_of(one), digest_of(two))

    def test_of_structures_that_contain_themselves_end(self):
        def walk(reply, sample):
            return walk(reply[1:], sample) if reply else 0

        walk.__globals__["OWN"] = own = []
        own.append(own)
        self.addCleanup(walk.__globals__.pop, "OWN")
        self.assertEqual(digest_of(walk), digest_of(walk))
        game = given(name="Game")()
        game.itself = game
        self.assertTrue(digest_of(game))
        self.assertTrue(digest_of(lambda reply, sample: OWN))  # noqa: F821


if __name__ == "__main__":
    unittest.main()
