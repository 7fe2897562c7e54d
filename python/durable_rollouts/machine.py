"""``local()``: a stack on this machine, with functions of this process as environments."""

from __future__ import annotations

import atexit
import os
import shlex
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Set, Tuple, Union

from temporalio.client import Client as TemporalClient
from temporalio.service import RPCError

from . import aio, connection, presence
from .code import digest_of
from .loop import run as _run
from .one_deployment import TASKS_MEMO
from .stack import LOOK_S, STATE, LocalError, Log, Stack, check_folder, ends_with, find_command, join, leave, package_version, say, what_runs
from .sync import Client

if TYPE_CHECKING:  # Where a system cannot serve, the rest of this package works.
    from .serving import Served

WORKS_WITHIN_S = 120.0
"""A worker starts, or starts again to use an environment that is new to it. Limit for a busy machine."""
MOST_DEATHS = 3
"""Deaths of a worker that starts, before nobody waits for it any more: one that ends once may have been killed."""

_lock = threading.RLock()
_uses: Dict[Path, int] = {}
_served: Dict[Tuple[Path, str], "Served"] = {}
_of: Dict[Tuple[Path, str], Set[int]] = {}
"""Which of this process's ``Local`` objects use an environment."""


class Local(Client):
    """A client of the stack that runs in a folder. ``local()`` makes one. It is left with its block, or by ``close()``.

    folder: the stack's
    address: of its Temporal server
    ui_url: of its Web UI
    viewer_url: of the page of its rollouts, with its token

    It has all calls of ``Client``.
    """

    def __init__(self, stack: Stack, temporal: TemporalClient, *, keep: bool) -> None:
        super().__init__(aio.Client(temporal, stack.task_queue, home=stack.home))
        self.folder: Path = stack.home
        self.address: str = stack.address
        self.ui_url: str = stack.ui_url
        self.viewer_url: str = stack.viewer_url
        self._temporal = temporal
        self._keep = keep
        self._names: List[str] = []
        self._pid: Optional[int] = os.getpid()
        atexit.register(self._at_exit)

    def __enter__(self) -> "Local":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leaves the stack. It ends if no other process uses it, unless it is kept; batches that have not ended go on when
        it is started again. With ``keep``, the environments of this process are served as long as it lives.

        Raises nothing of its own.
        """
        if self._keep or self._pid != os.getpid():
            return
        if _uses[self.folder] == 1 and ends_with(self.folder):
            self._say_what_waits()
        self._leave(wait=True)

    def _leave(self, *, wait: bool) -> None:
        # A fork of this process leaves nothing.
        if self._pid != os.getpid():
            return
        self._pid = None
        atexit.unregister(self._at_exit)
        with _lock:
            if not self._keep:
                _uses[self.folder] -= 1
                if _uses[self.folder] == 0:
                    leave(self.folder, wait=wait)
            for name in self._names:
                users = _of[self.folder, name]
                users.discard(id(self))
                if not users:
                    _served.pop((self.folder, name)).close()

    def _at_exit(self) -> None:
        """Does not wait, since the process ends and the stack ends by itself."""
        self._leave(wait=False)

    def _say_what_waits(self) -> None:
        with suppress(Exception):  # The stack has ended before.
            open = _run(connection.within(2, _open(self._temporal), "the list of batches"))
            if open:
                say(f"not finished: {', '.join(open)}. The next local() in {self.folder} plays on, with the environments that it serves")

    def __repr__(self) -> str:
        return f"Local({str(self.folder)!r}, {self.address}, Web UI {self.ui_url})"


def local(
    *,
    environments: Optional[Mapping[str, Any]] = None,
    engine: Optional[str] = None,
    folder: Union[str, "os.PathLike[str]"] = ".",
    keep: bool = False,
) -> Local:
    """Starts the stack of one machine in a folder (a Temporal server, a worker, a simulated engine), or joins the one that
    runs there. It ends with the block, with ``close()`` or with this process, if no other process uses it.

    environments: by the name that samples have as ``task_name``. A function ``reward(reply, sample)`` gets what the
      policy said and the sample's ``extra_env_info``, and returns a number; one that names what TRL's or verifiers' take
      (``completions``, ``completion``) gets that. A class or an object has NeMo RL's ``step``. ``"module:name"`` is
      imported instead. Each runs in processes of its own, forked from a copy of this one that is made now. Given again
      with other code, it is replaced, and refused while a batch uses it
    engine: URL of a vLLM; None: what runs, else what a temporal.yaml of the folder names, else the simulator
    folder: has the results, and may have that temporal.yaml with more
    keep: the stack stays until ``temporal-rollout up --end``

    Returns the client. Raises ``LocalError``, which says what to do.

        with local(environments={"short": lambda reply, sample: -len(reply)}) as client:
            batch = client.start_batch({"samples": ["Say hello."], "num_repeats": 8}, "hello", task_name="short")

    docs/python-environments.md has the rules of environments.
    """
    home = Path(folder).resolve()
    if not home.is_dir():
        raise LocalError(f"folder: expected one that exists, got {str(home)!r}")
    check_folder(home)
    given = dict(environments or {})
    with _lock:
        if not keep:
            _uses[home] = _uses.get(home, 0) + 1
        taken: List[str] = []
        try:
            return _local(home, given, engine=engine, keep=keep, taken=taken)
        except BaseException:
            for name in taken:
                _served.pop((home, name)).close()
            if not keep:
                _uses[home] -= 1
                if _uses[home] == 0:
                    leave(home, wait=False)
            raise


def _local(home: Path, given: Dict[str, Any], *, engine: Optional[str], keep: bool, taken: List[str]) -> Local:
    from .serving import Served, check_reward

    for name, found in given.items():
        try:
            check_reward(found)
        except TypeError as error:
            raise LocalError(f"environments: {name}: {error}") from None
    codes = {name: digest_of(found) for name, found in given.items()}
    for name in given:
        if (home, name) not in _served:
            _served[home, name] = Served(home, name)
            taken.append(name)
    # An environment that nothing can be using is served before the stack starts, so its worker knows it from the beginning.
    changed = [name for name in given if _served[home, name].code not in (None, codes[name]) or name not in taken]
    for name in given:
        if name not in changed:
            _served[home, name].serve(given[name], codes[name])
    before = what_runs(home)
    stack = join(home, engine=engine, keep=keep)
    own = [name for name in given if name in stack.environments]
    if own:
        raise LocalError(f"environments: {own[0]} is in {home / 'temporal.yaml'}; give yours another name")
    temporal = _run(connection.connect_to(stack.address, stack.namespace))
    for name in changed:
        _renew(_served[home, name], (given[name], codes[name]), _run(_using(temporal, name)))
    _await_worker(stack, temporal, {name: _served[home, name].url for name in given})
    client = Local(stack, temporal, keep=keep)
    client._names = list(given)
    for name in given:
        _of.setdefault((home, name), set()).add(id(client))
    joined = before is not None and before.pid == stack.pid
    _say_what_runs(stack, list(given), joined=joined, keep=keep)
    if not joined:
        _say_what_goes_on(stack, temporal)
    return client


def _renew(served: "Served", now: Tuple[Any, str], using: List[str]) -> None:
    found, code = now
    if served.code == code:
        # Data that is not compared may have changed.
        if not using:
            served.serve(found, code)
        return
    if using:
        raise LocalError(
            f"environments: expected {served.name} with the code and data that {', '.join(using)} plays with, got "
            f"another: wait until it has ended, or stop it (local().batch({using[0]!r}).stop()), "
            "or give the new code another name"
        )
    served.serve(found, code)
    say(f"environment {served.name}: its code has changed; from now on the new one is served")


async def _open(client: TemporalClient) -> List[str]:
    query = "WorkflowType IN ('rolloutBatch', 'rolloutStream') AND CloseTime IS NULL"
    return [run.id async for run in client.list_workflows(query)]


async def _using(client: TemporalClient, environment: str) -> List[str]:
    """Batches and streams that run and are planned with it. One that is not planned has seen no code yet.

    The memo says so from the plan on. Search attributes would come late, with the end of a rollout's first activity.
    """
    using = []
    for id in await connection.patiently(lambda: _open(client)):
        with suppress(RPCError):
            found = await client.get_workflow_handle(id).describe()
            if environment in (await found.memo_value(TASKS_MEMO, [])):
                using.append(id)
    return using


def _await_worker(stack: Stack, temporal: TemporalClient, urls: Dict[str, str]) -> None:
    """Until one polls, and knows the environments of these URLs."""
    until = time.monotonic() + WORKS_WITHIN_S
    logs = stack.home / STATE / "logs"
    with Log(logs / "stack.log") as log:
        while True:
            now = what_runs(stack.home)
            missing = [name for name, url in urls.items() if now is None or now.served.get(name) != url]
            if not missing and _run(presence.workers_of(temporal, stack.task_queue)) != []:
                return
            if now is None:
                raise LocalError(f"the stack of {stack.home} has ended while it started ({logs / 'stack.log'}):\n{log.end()}")
            deaths = log.deaths_of("worker")
            if len(deaths) >= MOST_DEATHS:
                raise LocalError(f"the worker of {stack.home} ends at each start ({logs / 'worker.log'} says more):\n{deaths[-1]}")
            if time.monotonic() > until:
                what = f"does not know environment {', '.join(missing)}" if missing else "does not work"
                raise LocalError(f"the worker of {stack.home} {what} after {WORKS_WITHIN_S:.0f} s: {logs / 'worker.log'} says why")
            time.sleep(LOOK_S)


def _say_what_goes_on(stack: Stack, temporal: TemporalClient) -> None:
    """An engine that was left away is the simulator, which should play no batch of another one unnoticed."""
    with suppress(RPCError, TimeoutError):
        open = _run(connection.within(2, _open(temporal), "the list of batches"))
        if open:
            engine = "the simulator" if stack.engine is None else stack.engine
            say(f"batches of an earlier stack go on, with {engine}: {', '.join(open)}; client.batch(id).stop() ends one")


def _say_what_runs(stack: Stack, names: List[str], *, joined: bool, keep: bool) -> None:
    engine = "the simulator, which says random words" if stack.engine is None else stack.engine
    served = f", serving {', '.join(names)}" if names else ""
    say(f"{'joined' if joined else 'started'} the stack of {stack.home}{served}. Engine: {engine}. Web UI: {stack.ui_url}. Rollouts: {stack.viewer_url}")
    if stack.version != package_version():
        say(f"its version is {stack.version or 'not said'}, this package's {package_version()}: if a call fails, end it and start again")
    if stack.engine_faults and not joined:
        say("\n".join([*stack.engine_faults, "engine= names another one; without generation in temporal.yaml the simulator plays"]))
    if keep:
        end = shlex.join([*find_command().run, "up", "--end", "--config", str(stack.home / "temporal.yaml")])
        say(f"it stays when this process ends, without the environments of this process. To end it: {end}")
