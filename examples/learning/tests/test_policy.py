"""The policy's mathematics: its gradient, and that it samples what its logprobs say."""

import unittest

import numpy as np
from offline import play
from policy import VOCABULARY, draw, forward, log_softmax, next_logprobs, untrained, window_before

import grpo
import policy
from model import logprobs_of
from task import LETTERS, samples


def step_of(seed):
    """Weights in float64, and a batch that older ones have sampled, so that no ratio is 1."""
    older = untrained(seed, LETTERS)
    tasks = [(group, sample) for group, sample in enumerate(samples(seed, 4)) for _ in range(4)]
    batch = grpo.batch_of(play(older, 0, tasks, np.random.default_rng(seed)))
    newer, _ = grpo.update(policy, older, grpo.Optimizer.of(older), batch)
    return {name: array.astype(np.float64) for name, array in newer.items()}, batch


class Gradient(unittest.TestCase):
    def test_of_the_clipped_objective_is_that_of_finite_differences(self):
        weights, batch = step_of(seed=3)
        by_weight, ratios = grpo.gradient(policy, weights, batch)
        self.assertGreater(np.abs(ratios - 1).max(), grpo.CLIP, "some tokens are clipped")
        random = np.random.default_rng(0)
        for name, array in weights.items():
            # Where something flows: most ids do not occur.
            places = np.flatnonzero(np.abs(by_weight[name]) > 1e-4)
            for place in random.choice(places, min(8, len(places)), replace=False):
                at = np.unravel_index(place, array.shape)
                sides = []
                for change in (1e-6, -1e-6):
                    moved = array.copy()
                    moved[at] += change
                    sides.append(grpo.objective(policy, {**weights, name: moved}, batch))
                numeric = (sides[0] - sides[1]) / 2e-6
                self.assertAlmostEqual(by_weight[name][at], numeric, delta=1e-6 + 1e-4 * abs(numeric), msg=f"{name}{at}")

    def test_the_first_ratios_of_tokens_that_these_weights_sampled_are_1(self):
        weights = untrained(5, LETTERS)
        tasks = [(0, sample) for sample in samples(5, 8)]
        batch = grpo.batch_of(play(weights, 0, tasks, np.random.default_rng(1)))
        _, ratios = grpo.update(policy, weights, grpo.Optimizer.of(weights), batch)
        self.assertLess(np.abs(ratios - 1).max(), 1e-4)


class Advantages(unittest.TestCase):
    def test_are_those_of_a_turn_among_the_members_that_have_it(self):
        advantages = grpo.advantages_of([[0, 1], [1, 0], [0.5], [0, 0]], np.array([0, 0, 0, 1]))
        first = np.array([0, 1, 0.5])
        np.testing.assert_allclose(advantages[:3, 0], (first - 0.5) / (first.std() + 0.01))
        np.testing.assert_allclose(advantages[:3, 1], [0.5 / 0.51, -0.5 / 0.51, 0])
        np.testing.assert_array_equal(advantages[3], [0, 0])

    def test_that_are_shuffled_are_the_same_ones_elsewhere_and_the_same_each_time(self):
        _, batch = step_of(seed=4)
        [one, again, other] = [grpo.shuffled(batch, (4, step)).advantages for step in (7, 7, 8)]
        np.testing.assert_array_equal(one, again)
        self.assertFalse(np.array_equal(one, other))
        np.testing.assert_allclose(np.sort(one), np.sort(batch.advantages))


class Sampling(unittest.TestCase):
    def test_draws_what_the_logprobs_say(self):
        weights, _ = step_of(seed=6)
        window = window_before(list(map(ord, "abcdefgh=bcd")), 12)[None]
        for temperature in (1.0, 0.5):
            [logprobs] = next_logprobs(weights, window, temperature)
            uniform = np.random.default_rng(2).random(20_000)
            counts = np.bincount(draw(np.tile(logprobs, (len(uniform), 1)), uniform), minlength=VOCABULARY)
            self.assertLess(chi_square(counts, np.exp(logprobs) * len(uniform)), 1)

    def test_a_number_just_below_1_is_a_token_too(self):
        logprobs = log_softmax(np.zeros((1, VOCABULARY)))
        [token] = draw(logprobs, np.array([np.nextafter(1, 0)]))
        self.assertEqual(token, VOCABULARY - 1)

    def test_the_logprobs_of_a_sequence_are_those_of_each_place(self):
        weights = untrained(7, LETTERS)
        ids = list(map(ord, "abcdefgh=bcdefghi"))
        [last] = log_softmax(forward(weights, window_before(ids, len(ids) - 1)[None])[0])
        self.assertAlmostEqual(logprobs_of(policy, weights, ids)[-1], last[ids[-1]], places=6)


def chi_square(counts, expected):
    """The statistic beside its 99.9 % quantile (Wilson and Hilferty): above 1 they differ. Rare tokens count as one."""
    common = expected >= 5
    pairs = [*zip(counts[common], expected[common]), (counts[~common].sum(), expected[~common].sum())]
    statistic = sum((count - want) ** 2 / want for count, want in pairs if want > 0)
    freedom = len(pairs) - 1
    quantile = freedom * (1 - 2 / (9 * freedom) + 3.09 * (2 / (9 * freedom)) ** 0.5) ** 3
    return statistic / quantile


if __name__ == "__main__":
    unittest.main()
