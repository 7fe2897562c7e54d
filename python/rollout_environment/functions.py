"""Functions as environments: `reward(reply, info)`, with a number for what the policy said."""

import inspect

from .answers import FIELDS, CallFailed, to_flag, to_json, to_reward
from .forms import caller_of

# What a function may return beside the reward, as a module's `stepOne` does.
TURN = ("reward", "observation", "terminated", "truncated", "metadata", "next_stop_strings", "answer")
# Names that no component of a reward has where a dictionary lacks `reward`: it is a turn with a misspelt field.
NO_COMPONENTS = {*TURN, *FIELDS, "done"}
# Attributes of a class that a function may have, too.
SETTINGS = ("thread_safe", "processes", "timeout")


class OfFunction:
    """An environment of one function. It is called with the policy's reply (text) and the rollout's state, which begins
    as the sample's `extra_env_info`. A number, or a dictionary of named numbers, is the reward and ends the rollout. A
    dictionary with `reward` is one turn of several: `terminated` is then False unless it says so.
    """

    def __init__(self, function):
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)
        self._call = caller_of(function, self.name)
        for setting in SETTINGS:
            setattr(self, setting, getattr(function, setting, None))

    def step(self, message_log_batch, metadata):
        returned = [self._call(log, state) for log, state in zip(message_log_batch, metadata)]
        if any(inspect.isawaitable(one) for one in returned):
            return self._awaited(returned, metadata)
        return self._answer(returned, metadata)

    async def _awaited(self, returned, metadata):
        return self._answer([await one if inspect.isawaitable(one) else one for one in returned], metadata)

    def _answer(self, returned, metadata):
        try:
            turns = [self._turn(one, state) for one, state in zip(returned, metadata)]
        except (TypeError, ValueError) as error:
            raise CallFailed(422, "BadAnswer", str(error)) from None
        return {
            "observations": [{"role": "environment", "content": turn["observation"]} for turn in turns],
            "rewards": by_name([turn["reward"] for turn in turns]),
            "terminateds": [turn["terminated"] for turn in turns],
            "truncateds": [turn["truncated"] for turn in turns],
            "metadata": [turn["metadata"] for turn in turns],
            "next_stop_strings": [turn["next_stop_strings"] for turn in turns],
            "answers": [turn["answer"] for turn in turns],
        }

    def _turn(self, returned, state):
        plain = to_json(returned, self.name if isinstance(returned, dict) else f"{self.name}: reward")
        turn = dict.fromkeys(TURN) | {"observation": "", "terminated": True, "truncated": False, "metadata": state}
        if not isinstance(plain, dict) or "reward" not in plain:
            fields = [name for name in plain if name in NO_COMPONENTS] if isinstance(plain, dict) else []
            if fields:
                raise TypeError(f"{self.name}: expected reward beside {', '.join(fields)}, or other names of components, got {plain!r:.80}")
            return turn | {"reward": to_reward(plain, self.name)}
        unknown = [name for name in plain if name not in TURN]
        if unknown:
            raise TypeError(f"{self.name}: expected {', '.join(TURN)} beside reward, got {', '.join(unknown)}")
        turn |= {"terminated": False} | plain
        flags = {name: to_flag(turn[name], f"{self.name}: {name}") for name in ("terminated", "truncated")}
        return turn | flags | {"reward": to_reward(plain["reward"], self.name)}


def by_name(rewards):
    """A list of each component, where a sample's reward has several."""
    if not any(isinstance(one, dict) for one in rewards):
        return rewards
    named = [one if isinstance(one, dict) else {"reward": one} for one in rewards]
    names = dict.fromkeys(name for one in named for name in one)
    return {name: [one.get(name, 0) for one in named] for name in names}
