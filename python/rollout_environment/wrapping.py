"""Environments of others, whose object is their state: Gymnasium's interface, the older one of gym, and OpenEnv's."""

import inspect

from .answers import CallFailed, to_flag, to_reward
from .forms import text_of
from .functions import by_name

OWN = "wrapped"
"""What is ours in a rollout's state."""
CUT = "TimeLimit.truncated"
"""In older gym's `info`."""


def wrap(make, *, action=str, show=str):
    """An environment of this package around objects with ``reset`` and ``step``, one for each rollout.

    make: called with the sample's ``extra_env_info``, returns the object. ``reset(seed=…)`` gets ``seed`` of it, if there is one
    action: makes of the policy's text what the object's ``step`` takes
    show: makes of an observation the text that the policy reads

    Returns an object that is served like a class of yours. Its ``samples`` makes samples whose prompt is the first observation.
    Raises nothing. A step raises ``ValueError`` if an object that is played again shows what the policy has not read.

        game = wrap(lambda info: gymnasium.make("Taxi-v3"), action=int)

    docs/python-environments.md says what happens when the process dies.
    """
    return _Wrapped(make, action, show)


class _Wrapped:
    def __init__(self, make, action, show):
        self._make, self._action, self._show = make, action, show
        self._live = {}

    def samples(self, infos, task_name):
        """One for each ``extra_env_info``, whose prompt is what the object shows first."""
        made = []
        for info in infos:
            live = _Live(self._make(info), self._show)
            log = [{"role": "user", "content": live.begin(info)}]
            live.close()
            made.append({"message_log": log, "extra_env_info": info, "task_name": task_name})
        return made

    def begin(self, sample):
        return {**sample["metadata"], OWN: {"session": sample["session"], "prompt": len(sample["message_log"])}}

    def step(self, message_log_batch, metadata):
        turns = [self._turn(log, state) for log, state in zip(message_log_batch, metadata)]
        names = ("observations", "rewards", "terminateds", "truncateds")
        answer = {name: [turn[at] for turn in turns] for at, name in enumerate(names)}
        return {**answer, "rewards": by_name(answer["rewards"]), "metadata": metadata}

    def end(self, metadata, session):
        live = self._live.pop(session, None)
        if live is not None:
            live.close()

    def _turn(self, log, state):
        own = state[OWN]
        replies = [text_of(message["content"]) for message in log[own["prompt"] :: 2]]
        live = self._live.get(own["session"])
        if live is None or live.replies not in (replies, replies[:-1]):
            live = self._again(log, state, replies[:-1])
        if live.replies != replies:
            try:
                live.play(replies[-1], self._action)
            except BaseException:
                # The object may have played a part of this turn.
                self.end(state, own["session"])
                raise
        return live.last

    def _again(self, log, state, replies):
        """An object of the same turns. What it shows must be what the policy has read: else its rewards are another game's."""
        own = state[OWN]
        self.end(None, own["session"])
        live = _Live(self._make(state), self._show)
        shown, prompt = live.begin(state), log[: own["prompt"]]
        if shown not in "".join(text_of(message["content"]) for message in prompt):
            raise ValueError(f"expected the first observation in the prompt, got none of it: {shown!r:.200}")
        for turn, reply in enumerate(replies):
            live.play(reply, self._action)
            read = text_of(log[own["prompt"] + 2 * turn + 1]["content"])
            if live.last[0]["content"] != read:
                raise ValueError(f"turn {turn}: expected the observation that the policy has read, {read!r:.200}, when it is played again, got {live.last[0]['content']!r:.200}")
        self._live[own["session"]] = live
        return live


class _Live:
    """The object, and what it has played."""

    def __init__(self, made, show):
        self._made, self._show = made, show
        self.replies, self.last = [], None

    def begin(self, info):
        seed = {"seed": info["seed"]} if "seed" in info and _takes_seed(self._made.reset) else {}
        returned = _at_once(self._made.reset(**seed), "reset")
        return self._show(returned[0] if isinstance(returned, tuple) else getattr(returned, "observation", returned))

    def play(self, reply, action):
        returned = _at_once(self._made.step(action(reply)), "step")
        try:
            observation, *verdict = _parts(returned)
        except (TypeError, ValueError) as error:
            raise CallFailed(422, "BadAnswer", str(error)) from None
        self.replies = [*self.replies, reply]
        self.last = ({"role": "environment", "content": self._show(observation)}, *verdict)

    def close(self):
        getattr(self._made, "close", lambda: None)()


def _takes_seed(reset):
    """Clients of OpenEnv pass on what they are given."""
    parameters = inspect.signature(reset).parameters
    return "seed" in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())


def _at_once(returned, name):
    if inspect.isawaitable(returned):
        getattr(returned, "close", lambda: None)()
        raise TypeError(f"{name}: expected what it returns, got something to await: let make return a synchronous object (OpenEnv: client.sync())")
    return returned


def _parts(returned):
    """Observation, reward, terminated, truncated."""
    if isinstance(returned, tuple) and len(returned) == 5:
        observation, reward, terminated, truncated, _ = returned
        return observation, to_reward(reward, "step: reward"), to_flag(terminated, "step: terminated"), to_flag(truncated, "step: truncated")
    if isinstance(returned, tuple) and len(returned) == 4:
        observation, reward, done, info = returned
        # Older gym says so in `info` where its limit, and not the game, has ended it.
        cut = to_flag(info.get(CUT, False) if isinstance(info, dict) else False, f"step: {CUT}")
        return observation, to_reward(reward, "step: reward"), to_flag(done, "step: done") and not cut, cut
    if hasattr(returned, "observation") and hasattr(returned, "done"):
        done, reward = to_flag(returned.done, "step: done"), getattr(returned, "reward", None)
        # OpenEnv's None says that there is no reward yet, so the last step must have one.
        return returned.observation, 0 if reward is None and not done else to_reward(reward, "step: reward"), done, False
    raise TypeError(f"step: expected (observation, reward, terminated, truncated, info), or an object with observation, reward and done, got {returned!r:.200}")
