"""The arguments of a reward: reply and sample, or by name those of TRL's and of verifiers' functions."""

import inspect

from .answers import CallFailed, to_json

EXPECTED = (
    "expected a function of two, reward(reply, info), or one that names what TRL's take (prompts, completions, columns) or "
    "verifiers' (prompt, completion, answer, info, task, state)"
)
# Arguments that only TRL's trainer has.
OF_TRAINER = ("completion_ids", "trainer_state", "log_extra", "log_metric", "environments")
OF_VERIFIERS = ("prompt", "completion", "answer", "info", "task", "state")
# Arguments that are columns of their data sets.
COLUMNS = ("answer", "info", "task")
# The column of an answer, unless `columns` maps it.
ANSWER = "ground_truth"


def is_reward(found):
    """Whether it is a function of a reply. One that can be called without arguments makes an environment."""
    if isinstance(found, type) or not callable(found) or hasattr(found, "step") or takes(found):
        return False
    return takes(found, None, None) or _form(found) is not None


def check_reward(found):
    """Raises ``TypeError`` for a function that is neither a reward nor makes an environment."""
    if isinstance(found, type) or not callable(found) or hasattr(found, "step"):
        return
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):
        return
    name = getattr(found, "__name__", type(found).__name__)
    if not takes(found) and not is_reward(found):
        raise TypeError(f"{EXPECTED}, got {name}{signature}")
    lacking = [one for one in _required(found) if one in OF_TRAINER] if _form(found) is _of_trl else []
    if lacking:
        raise TypeError(f"expected names that a sample has, got {', '.join(lacking)} of {name}{signature}, which only TRL's trainer has")


def caller_of(function, name):
    """How it is called for a message log, whose last message is the reply, and a state."""
    form = _form(function)
    if form is None:
        return lambda log, state: function(text_of(log[-1]["content"]), state)
    return lambda log, state: form(function, name, log, state or {})


def takes(function, *arguments):
    try:
        inspect.signature(function).bind(*arguments)
    except (TypeError, ValueError):
        return False
    return True


def text_of(content):
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or [] if isinstance(part, dict))


def _form(function):
    """None: of two arguments by their places."""
    try:
        names = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    if "completions" in names:
        return _of_trl
    return _of_verifiers if "completion" in names and set(_required(function)) <= set(OF_VERIFIERS) else None


def _of_trl(function, name, log, state):
    given = {**{column: [value] for column, value in state.items()}, "prompts": [log[:-1]], "completions": [[_reply(log)]]}
    returned = function(**_named(function, given, name=name, state=state))

    async def awaited():
        return _only(await returned, name)

    return awaited() if inspect.isawaitable(returned) else _only(returned, name)


def _only(returned, name):
    try:
        plain = to_json(returned, name)
    except (TypeError, ValueError) as error:
        raise CallFailed(422, "BadAnswer", str(error)) from None
    if isinstance(plain, list) and len(plain) == 1:
        return plain[0]
    raise CallFailed(422, "BadAnswer", f"{name}: expected a list with a reward for each completion, of which there is one, got {plain!r:.80}")


def _of_verifiers(function, name, log, state):
    found = {"prompt": log[:-1], "completion": [_reply(log)], "info": state}
    if ANSWER in state:
        found["answer"] = state[ANSWER]
    found |= {column: state[column] for column in COLUMNS if column in state}
    return function(**_named(function, {**found, "state": {**state, **found}}, name=name, state=state))


def _reply(log):
    return {"role": "assistant", "content": text_of(log[-1]["content"])}


def _named(function, given, *, name, state):
    """The given arguments that it takes. Raises ``TypeError`` for one that it needs and the sample lacks."""
    lacking = [one for one in _required(function) if one not in given]
    if lacking:
        raise TypeError(f"{name}: expected {', '.join(lacking)} in the sample's extra_env_info, got {', '.join(map(str, state)) or 'none'}")
    names = inspect.signature(function).parameters
    has_rest = any(one.kind is one.VAR_KEYWORD for one in names.values())
    return given if has_rest else {one: value for one, value in given.items() if one in names}


def _required(function):
    parameters = inspect.signature(function).parameters.values()
    return [one.name for one in parameters if one.default is one.empty and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]
