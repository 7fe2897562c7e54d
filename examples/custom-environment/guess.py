"""Guess a number between 1 and 100: several turns, the state in ``metadata``, a reward for the last turn alone."""

import re


class Guess:
    thread_safe = True
    """Keeps nothing of its own: many calls at a time."""

    def step(self, message_log_batch, metadata):
        answers = [self._one(log[-1]["content"], state) for log, state in zip(message_log_batch, metadata)]
        return {
            "observations": [{"role": "environment", "content": text} for text, _, _, _ in answers],
            "rewards": [reward for _, reward, _, _ in answers],
            "terminateds": [done for _, _, done, _ in answers],
            "metadata": [state for _, _, _, state in answers],
            "next_stop_strings": None,
        }

    def _one(self, reply, state):
        number, left = state["number"], state["tries_left"] - 1
        found = re.search(r"-?\d+", reply)
        guess = int(found[0]) if found else None
        right = guess == number
        hint = "Say a number." if guess is None else "Higher." if guess < number else "Lower."
        text = "Right." if right else f"{hint} {left} tries left." if left > 0 else "No more tries."
        return text, 1.0 if right else 0.0, right or left <= 0, {"number": number, "tries_left": left}
