"""The trainer's weights as tensors that rank 0 sends to the engines, so that they share no folder with it."""

from __future__ import annotations

import threading
from typing import Any, Callable, List, Mapping, Optional, Tuple

import torch
from accelerate.state import PartialState

from ...faults import PolicyUpdateFailed
from ...sync import Engines, Policy
from ..folders import in_time
from ..own import Own
from .ranks import said, told
from .tensors import Named, whole_of

Send = Callable[[Engines, Any], Any]
"""Of ``engines`` and named tensors, as ``engines.send`` takes them: each has ``dtype``, ``shape`` and ``full_tensor()``."""


class Sending:
    """send, options: as ``Publish`` has them."""

    def __init__(self, own: Own, policy: Policy, send: Send, *, options: Mapping[str, Any]) -> None:
        self._own, self._policy, self._send = own, policy, send
        # The first weights may be those that engines began with.
        self._options = {"same": True, **options}

    def bring(self, model: Any) -> None:
        """By all ranks at once, without what runs the model on them. Raises what ``Policy.transfer`` and ``send`` raise."""
        lead = Lead(whole_of(model))

        def attempt() -> None:
            with self._policy.transfer(**self._options, **self._own.options) as engines:
                self._own.published()
                self._send(engines, lead.tensors)

        def leads() -> None:
            try:
                in_time(attempt, PolicyUpdateFailed, "weights are not sent yet")
            finally:
                lead.end()

        if not PartialState().is_main_process:
            lead.follow()
        told(leads)


class Lead:
    """Rank 0 makes one tensor after the other whole, in whatever order and however often, and the others do it with it."""

    def __init__(self, tensors: Named) -> None:
        self._tensors = tensors
        self._lock = threading.Lock()
        self._is_over = False

    @property
    def tensors(self) -> List[Tuple[str, "Led"]]:
        """For rank 0, also in another thread."""
        return [(name, Led(self, at, one.dtype, one.shape)) for at, (name, one) in enumerate(self._tensors)]

    def whole(self, at: int) -> torch.Tensor:
        with self._lock:
            if self._is_over:
                raise RuntimeError("the transfer has ended")
            return self._make(said(at))

    def follow(self) -> None:
        """On the other ranks, until the end."""
        while (at := said(None)) is not None:
            self._make(at)

    def end(self) -> None:
        with self._lock:
            self._is_over = True
            said(None)

    def _make(self, at: Optional[int]) -> torch.Tensor:
        assert at is not None
        return self._tensors[at][1].full_tensor()


class Led:
    """A tensor that all ranks make whole when rank 0 asks for it."""

    def __init__(self, lead: Lead, at: int, dtype: torch.dtype, shape: torch.Size) -> None:
        self._lead, self._at = lead, at
        self.dtype, self.shape = dtype, shape

    def full_tensor(self) -> torch.Tensor:
        return self._lead.whole(self._at)
