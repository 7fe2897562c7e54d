"""What is shown of a batch that somebody waits for."""

import asyncio
import contextlib
import io
import sys
import unittest
from unittest import mock

from durable_rollouts import bar
from durable_rollouts.waits import Seen

PROGRESS = {"phase": "running", "requested": 64, "done": 12, "valid": 10, "failed": 2, "reward_sum": 9.0, "waiting": None}


def lines_of(*states, cancelled=False, every_s=0.01):
    """What is printed without tqdm while a batch goes through these states; None: nobody answers; text: why."""
    left = list(states)

    async def look():
        state = left.pop(0) if len(left) > 1 else left[0]
        if state is None or isinstance(state, str):
            return Seen(None, state)
        return Seen({**PROGRESS, **state}, None)

    async def main():
        async with bar.shown(look, "step-17"):
            while len(left) > 1:
                await asyncio.sleep(0.001)
            if cancelled:
                raise asyncio.CancelledError

    without_tqdm = mock.patch.dict(sys.modules, {"tqdm": None, "tqdm.auto": None})
    rarely = mock.patch.object(bar._Lines, "every_s", every_s)
    fast = mock.patch.object(bar, "LOOK_S", 0.01)
    with without_tqdm, rarely, fast, contextlib.redirect_stderr(io.StringIO()) as shown:
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(main())
    return shown.getvalue().splitlines()


class WithoutTqdm(unittest.TestCase):
    def test_a_batch_that_runs_is_shown_in_lines_and_its_last_state_once(self):
        done = {"phase": "done", "done": 64, "failed": 0, "valid": 64, "reward_sum": 32.0}
        shown = lines_of({}, {"failed": 0}, None, done)
        self.assertEqual(
            shown,
            [
                "step-17: 12 of 64 done, 2 failed, mean reward 0.9",
                "step-17: 12 of 64 done, 0 failed, mean reward 0.9",
                "step-17: 64 of 64 done, 0 failed, mean reward 0.5",
            ],
        )

    def test_one_that_has_no_counts_or_rewards_yet_says_what_it_does(self):
        planned = {"phase": "planning", "requested": 0, "done": 0, "valid": 0, "failed": 0}
        waits = {"done": 0, "valid": 0, "failed": 0, "waiting": {"service": "policy", "message": "away"}}
        shown = lines_of(planned, waits, waits)
        self.assertEqual(shown[:2], ["step-17: planning", "step-17: 0 of 64 done, 0 failed, waits for policy"])

    def test_what_it_waits_for_has_a_line_at_once_and_counts_have_one_only_now_and_then(self):
        waits = {"done": 13, "waiting": {"service": "policy", "message": "away"}}
        shown = lines_of({}, {"done": 13}, waits, "no worker polls", "no worker polls", {"done": 14}, {"done": 15}, every_s=60)
        self.assertEqual(
            shown,
            [
                "step-17: 12 of 64 done, 2 failed, mean reward 0.9",
                "step-17: 13 of 64 done, 2 failed, mean reward 0.9, waits for policy",
                "step-17: no worker polls",
                "step-17: 14 of 64 done, 2 failed, mean reward 0.9",
            ],
        )

    def test_the_first_failure_of_each_type_has_a_line(self):
        late = {"rollouts": 2, "message": "no answer", "example": "step-17/3-0"}
        wrong = {"rollouts": 1, "message": "KeyError: 'truth'\n\x1b[2J", "example": "step-17/0-1"}
        shown = lines_of({"failures": {"A": wrong}}, {"failures": {"A": {**wrong, "rollouts": 2}}}, {"failures": {"A": wrong, "B": late}})
        self.assertEqual(
            [line for line in shown if "failed:" in line],
            ["step-17/0-1 failed: A: KeyError: 'truth' ?[2J", "step-17/3-0 failed: B: no answer"],
        )

    def test_a_caller_that_is_cancelled_is_not_kept_by_another_question(self):
        self.assertEqual(len(lines_of({}, {}, cancelled=True)), 1)


class WithTqdm(unittest.TestCase):
    def test_no_lines_are_printed_beside_the_bar(self):
        made = mock.Mock()
        with mock.patch.dict(sys.modules, {"tqdm": mock.Mock(), "tqdm.auto": mock.Mock(tqdm=lambda **_: made)}):
            display = bar._display("step-17")
        with contextlib.redirect_stderr(io.StringIO()) as shown:
            display.draw(PROGRESS)
        self.assertEqual((shown.getvalue(), made.n, made.total), ("", 12, 64))
        made.set_postfix_str.assert_called_once_with("running, 2 failed", refresh=False)
        display.say("no worker polls")
        made.set_postfix_str.assert_called_with("no worker polls", refresh=False)

    def test_the_reason_of_a_failure_is_written_above_the_bar(self):
        made = mock.Mock()
        reason = {"rollouts": 1, "message": "KeyError", "example": "step-17/0-1"}
        with mock.patch.dict(sys.modules, {"tqdm": mock.Mock(), "tqdm.auto": mock.Mock(tqdm=lambda **_: made)}):
            display = bar._display("step-17")
        for _ in range(2):
            display.draw({**PROGRESS, "failures": {"EnvironmentFailed": reason}})
        made.write.assert_called_once_with("step-17/0-1 failed: EnvironmentFailed: KeyError", file=sys.stderr)
