"""Answers that are given again to a repeat of their request."""

import hashlib
import json
import threading
from collections import OrderedDict, namedtuple
from concurrent.futures import Future

from .answers import CallFailed


def request_of(name, body):
    """None, and never remembered, without a name."""
    return (name, hashlib.sha256(_text_of(body).encode()).digest()) if name else None


def _text_of(value):
    return json.dumps(value, sort_keys=True)


class _Answer(Future):
    def __init__(self, request, caller, given):
        super().__init__()
        self.request, self.caller, self.given = request, caller, given

    def returned(self):
        """Waits for it. None: it failed."""
        return self.result() if self.exception() is None else None


class Answers:
    def __init__(self, most):
        self.most = most
        self.answers = OrderedDict()
        self.lock = threading.Lock()

    def of(self, name):
        """The answers to all requests of this name, also those that are still computed."""
        with self.lock:
            return [answer for (known, _), answer in self.answers.items() if known == name]

    def forget(self, answers):
        with self.lock:
            for answer in answers:
                if self.answers.get(answer.request) is answer:
                    del self.answers[answer.request]

    def once(self, request, caller, make, given=None):
        """The first of its kind computes, others wait for it, and it runs as long as any of them waits. A failure is
        not kept. `given` is kept beside the answer.
        """
        if not request:
            return make()
        with self.lock:
            found = self.answers.get(request)
            if found is None:
                mine = self.answers[request] = _Answer(request, caller, given)
                done = (r for r, a in self.answers.items() if a.done())
                while len(self.answers) > self.most and (oldest := next(done, None)):
                    del self.answers[oldest]
                    done = (r for r, a in self.answers.items() if a.done())
        if found is not None:
            found.caller.joined_by(caller)
            return found.result()
        try:
            answer = make()
        except BaseException as error:
            self.forget([mine])
            mine.set_exception(error)
            raise
        mine.set_result(answer)
        return answer


# `state` is what to merge the last one over.
Begun = namedtuple("Begun", "state answers")


def begun_by(metadata, answers):
    """Which of a name's beginnings a session with this last state had. Deployments that do not say which they are may use
    one name, and so may a batch that was deleted and started again.

    A caller that has not heard of its beginning sends the sample's state. It gets what `begin` returned, which names
    what there is to release. Other last states come from what `begin` returned, and nothing is merged into them.
    """
    text = _text_of(metadata)
    unheard = [answer for answer in answers if _text_of(answer.given) == text]
    begun = [(answer, _state_of(answer)) for answer in unheard or _heard(answers)]
    begun = [(answer, state) for answer, state in begun if state is not None]
    if not unheard:
        return Begun({}, [answer for answer, state in begun if state.items() <= metadata.items()])
    if len({_text_of(state) for _, state in begun}) > 1:
        what = "several sessions of this name and state have begun, and which one ends is not known; workers that say which deployment is theirs (Rollout-Deployment) have names of their own"
        raise CallFailed(409, "Ambiguous", what)
    return Begun(begun[0][1] if begun else {}, [answer for answer, _ in begun])


def _heard(answers):
    """A single one may have been left by its caller, and is waited for."""
    return answers if len(answers) == 1 else [answer for answer in answers if answer.done()]


def _state_of(answer):
    """None: it did not begin."""
    returned = answer.returned()
    return None if returned is None else returned.get("metadata", answer.given)
