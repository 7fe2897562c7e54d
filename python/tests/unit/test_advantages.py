"""Advantages and weights against loops that say the same in words."""

import unittest

import numpy as np
from durable_rollouts import advantages, to_groups
from durable_rollouts.advantages import LEAST_SPREAD, advantages_of, weights_of


def slow(rewards, groups, kind):
    found = []
    for reward, group in zip(rewards, groups):
        members = [float(r) for r, g in zip(rewards, groups) if g == group]
        if len(members) == 1 or len(set(members)) == 1:
            found.append(0.0)
        elif kind == "rloo":
            others = (sum(members) - float(reward)) / (len(members) - 1)
            found.append(float(reward) - others)
        else:
            found.append((float(reward) - np.mean(members)) / (np.std(members, ddof=1) + LEAST_SPREAD))
    return found


class Advantages(unittest.TestCase):
    def test_of_groups_are_one_array_a_group_in_the_order_of_its_rows(self):
        rows = [{"row": row, "total_reward": reward} for row, reward in ((0, 1.0), (1, 3.0), (0, 0.0), (2, 5.0), (1, 1.0))]
        found = advantages(to_groups(rows), kind="rloo")
        self.assertEqual([one.tolist() for one in found], [[1.0, -1.0], [2.0, -2.0], [0.0]])

    def test_compare_each_rollout_with_its_group_once(self):
        random = np.random.default_rng(7)
        for _ in range(200):
            groups = random.integers(0, 5, random.integers(1, 20))
            rewards = random.choice([0.0, 0.1, 0.3, 1.0, -2.0], len(groups)).astype(np.float32)
            for kind in ("grpo", "rloo"):
                found = advantages_of(rewards, groups, kind)
                self.assertEqual(found.dtype, np.float32)
                np.testing.assert_allclose(found, slow(rewards, groups, kind), rtol=1e-5, atol=1e-6)

    def test_of_equal_rewards_are_exactly_0(self):
        rewards = np.full(7, 0.1, np.float32)
        for kind in ("grpo", "rloo"):
            self.assertEqual(advantages_of(rewards, np.zeros(7, np.int64), kind).tolist(), [0.0] * 7)

    def test_are_the_rewards_where_nothing_is_compared(self):
        rewards = np.array([1, 0.5], np.float32)
        found = advantages_of(rewards, np.array([0, 0]), "none")
        self.assertEqual(found.tolist(), [1, 0.5])
        self.assertIsNot(found, rewards)

    def test_of_nothing_are_nothing_and_an_unknown_kind_is_named(self):
        self.assertEqual(advantages_of(np.zeros(0, np.float32), np.zeros(0, np.int64), "grpo").shape, (0,))
        with self.assertRaisesRegex(ValueError, 'advantages: expected "grpo", "rloo" or "none", got \'gae\''):
            advantages_of(np.zeros(1, np.float32), np.zeros(1, np.int64), "gae")


class Weights(unittest.TestCase):
    MASK = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0], [0.5, 0, 0]], np.float32)
    ROLLOUTS = np.array([0, 0, 1, 2])

    def test_of_tokens_count_all_trained_ones_alike(self):
        np.testing.assert_allclose(weights_of(self.MASK, self.ROLLOUTS, "token"), self.MASK / 4)

    def test_of_rollouts_count_all_that_train_alike(self):
        expected = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0], [1.5, 0, 0]]) / (2 * 3)
        np.testing.assert_allclose(weights_of(self.MASK, self.ROLLOUTS, "rollout"), expected, rtol=1e-6)

    def test_do_not_change_when_a_rollout_is_split_into_sequences(self):
        random = np.random.default_rng(3)
        for _ in range(200):
            rollouts = int(random.integers(1, 5))
            mask = (random.random((rollouts, 12)) < 0.5).astype(np.float32)
            values = random.normal(size=mask.shape)
            cuts = [sorted(random.integers(0, 13, random.integers(0, 4))) for _ in range(rollouts)]
            parts, of = [], []
            for rollout, own in enumerate(cuts):
                for start, end in zip([0, *own], [*own, 12]):
                    part = np.zeros(12, np.float32)
                    part[start:end] = mask[rollout, start:end]
                    parts.append(part)
                    of.append(rollout)
            for norm in ("token", "rollout"):
                whole = weights_of(mask, np.arange(rollouts), norm) * values
                split = weights_of(np.array(parts), np.array(of), norm) * values[of]
                np.testing.assert_allclose(split.sum(), whole.sum(), atol=1e-6)

    def test_of_nothing_trained_are_0_and_an_unknown_norm_is_named(self):
        for norm in ("token", "rollout"):
            self.assertEqual(weights_of(np.zeros((2, 3), np.float32), np.array([0, 1]), norm).sum(), 0)
            self.assertEqual(weights_of(np.zeros((0, 3), np.float32), np.zeros(0, np.int64), norm).shape, (0, 3))
        with self.assertRaisesRegex(ValueError, 'norm: expected "token" or "rollout", got None'):
            weights_of(self.MASK, self.ROLLOUTS, None)


if __name__ == "__main__":
    unittest.main()
