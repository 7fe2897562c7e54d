"""What batches and streams have in common: long polls, and limits that change while they run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Dict, Optional, Union

from ..answers import Limits
from ..report import Report, report_of

LONGEST_WAIT, LONGEST_WAIT_S = "10m", 600.0
"""Duration of one long poll; each poll costs some events of a history."""


class Steered:
    """A batch or a stream that runs."""

    id: str
    _home: Optional[Path] = None
    """The folder of the stack that plays it, where this process knows it."""

    async def _ask(self, update: str, request: Dict[str, Any]) -> Any:
        raise NotImplementedError

    async def set_max_in_flight(self, max_in_flight: int) -> None:
        """Changes how many of its rollouts run at once. Rollouts of a batch and groups of a stream that run stay.

        max_in_flight: rollouts

        Raises ``UpdateRefused``, also by a batch that has ended, and what ``next_step`` raises by a stream that has
        ended.
        """
        await self._ask("set_max_in_flight", {"max_in_flight": max_in_flight})

    async def set_limits(
        self,
        *,
        max_rollout_turns: Optional[int] = None,
        max_new_tokens: Optional[int] = None,
        max_seq_len: Optional[int] = None,
        rollout_timeout: Optional[str] = None,
    ) -> Limits:
        """Changes limits of rollouts that run and of later ones.

        max_rollout_turns: turns; None: it stays, and so for the others
        max_new_tokens: tokens of one turn
        max_seq_len: tokens of the whole log
        rollout_timeout: such as ``"30m"``

        Returns what is in force. Raises like ``set_max_in_flight``.

            batch.set_limits(rollout_timeout="2h")
        """
        given = {name: value for name, value in locals().items() if name != "self" and value is not None}
        limits: Limits = await self._ask("set_limits", given)
        return limits

    async def show(self, file: Optional[Union[str, Path]] = None, *, config: Optional[Union[str, Path]] = None) -> Report:
        """Its rollouts so far as a page, which a notebook draws: what ``temporal-rollout report`` writes. ``wait(show=True)``
        shows progress instead.

        file: where; None: a file of its own in the system's folder for such
        config: a temporal.yaml that names the store; None: that of the stack of ``local()``, or of this folder

        Returns a ``Report``. Raises ``LocalError``, which says what to run, where the project's programs or its store are
        not on this machine.

            batch.show()
        """
        return await asyncio.to_thread(report_of, self.id, file, config=config, home=self._home)
