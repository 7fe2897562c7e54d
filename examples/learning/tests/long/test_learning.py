"""That task, policy and GRPO learn, without a server."""

import unittest

from offline import held_out_rewards
from trainer import Settings


class Learning(unittest.TestCase):
    def test_the_held_out_reward_goes_from_a_tenth_to_nine(self):
        rewards = held_out_rewards(Settings(seed=1))
        self.assertLess(rewards[0], 0.1)
        self.assertGreater(rewards[-1], 0.9)

    def test_from_shuffled_advantages_nothing_is_learned(self):
        rewards = held_out_rewards(Settings(seed=1, shuffle_advantages=True))
        self.assertLess(max(rewards), 0.1)


if __name__ == "__main__":
    unittest.main()
