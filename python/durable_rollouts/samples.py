"""Samples of any number, from rows of any shape: in the request, or in a file below the workers' ``inputs_dir``, which
may be in a bucket.

A worker says where that is. This process writes a token there, a small file of a random name, and the worker says whether
it reads it: so a disk that only has the same path, and a file that only its writer may read, are found out before a large
file is written. That file is named by its hash, so the same samples are the same request and are put once.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
import threading
import time
import uuid
from contextlib import suppress
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Union

from temporalio.client import Client as TemporalClient, WorkflowFailureError
from temporalio.exceptions import TimeoutError as TimedOutWorkflow

from .connection import log, patiently
from .faults import InvalidBatchRequest, fault_of
from .objects import put_object, remove_object, upload
from .plain import compact, raw_json
from .shapes import Shape
from .waits import Waits, told, why_silent

INLINE_BYTES = 2**18
"""Limit of the samples within a request."""
FOLDER = ".samples"
"""Below ``inputs_dir``. ``inputs.ts`` has the same name."""
ANSWERED_WITHIN = timedelta(minutes=1)
"""Then the worker is asked again. A question that nobody waits for any more does not stay on the server."""
PART_S = 24 * 3600.0
"""Parts of this age are those of a process that was killed."""


async def placed(client: TemporalClient, samples: Any, *, shape: Shape, task_queue: str) -> Any:
    """What the request says of them: a list, or the path of a file that has them."""
    if isinstance(samples, Mapping):
        shape.refuse_file()
        return samples
    rows = shape.samples(samples)
    stop = threading.Event()
    try:
        head = await asyncio.to_thread(_head, rows, stop)
        if head.is_all:
            return head.samples
        inputs = await _shared(client, task_queue, head.size)
        lines = chain(head.samples, rows)
        put = await asyncio.to_thread(_put, inputs["inputs_dir"], lines, most=inputs["most_characters"], stop=stop)
    finally:
        stop.set()
    if put.is_new:
        # The file stays until it is deleted, so its size is said.
        log.warning("put %s samples (%.1f MB) into %s, once: workers read them there", f"{put.samples:,}", put.size / 1e6, put.file)
    else:
        log.info("%s has these %s samples: they are not put again", put.file, f"{put.samples:,}")
    return {"path": f"{FOLDER}/{put.file.rsplit('/', 1)[-1]}"}


class _Head(NamedTuple):
    samples: List[Any]
    size: int
    is_all: bool


def _head(rows: Iterator[Any], stop: threading.Event) -> _Head:
    """As many as a request has room for, and the one after them. Counts bytes as the worker does: of compact JSON."""
    found: List[Any] = []
    size = len("[]")
    for row in rows:
        _check(stop)
        size += len(compact(row)) + (len(",") if found else 0)
        found.append(row)
        if size > INLINE_BYTES:
            return _Head(found, size, False)
    return _Head(found, size, True)


class _Put(NamedTuple):
    file: str
    samples: int
    size: int
    is_new: bool


def _put(inputs_dir: str, samples: Iterable[Any], *, most: int, stop: threading.Event) -> _Put:
    """Named by its hash once it is whole, whatever kills its writer: a part gets the name, or becomes an object."""
    if not inputs_dir.startswith("s3://"):
        folder = Path(inputs_dir) / FOLDER
        _remove_old_parts(folder)
        return _named(folder, folder, samples, most=most, stop=stop)
    with tempfile.TemporaryDirectory() as scratch:
        return _named(f"{inputs_dir}/{FOLDER}", Path(scratch), samples, most=most, stop=stop)


def _named(folder: Union[str, Path], scratch: Path, samples: Iterable[Any], *, most: int, stop: threading.Event) -> _Put:
    part = scratch / f"{uuid.uuid4().hex}.part"
    digest, count, characters, size = hashlib.sha256(), 0, 0, 0
    try:
        with open(part, "xb") as file:
            for sample in samples:
                _check(stop)
                line = compact(sample)
                characters += len(line) if line.isascii() else len(line.decode())
                if characters > most:
                    raise InvalidBatchRequest(
                        f"samples: expected at most {most} characters (half of worker.memory, which planning holds), got more "
                        f"in the first {count + 1}; split them into several batches"
                    )
                size += file.write(line) + file.write(b"\n")
                digest.update(line)
                digest.update(b"\n")
                count += 1
            file.flush()
            os.fsync(file.fileno())
        name = f"{digest.hexdigest()}.jsonl"
        if isinstance(folder, str):
            return _Put(f"{folder}/{name}", count, size, upload(f"{folder}/{name}", part))
        return _Put(str(folder / name), count, size, _moved(part, folder / name, size))
    finally:
        part.unlink(missing_ok=True)


def _moved(part: Path, whole: Path, size: int) -> bool:
    if not (whole.exists() and whole.stat().st_size == size):
        os.replace(part, whole)
        _sync(whole.parent)
        return True
    # Its time is that of its last use, so old ones may be deleted (docs/operations.md).
    with suppress(OSError):
        os.utime(whole)
    return False


def _sync(folder: Path) -> None:
    """The name survives a power cut, too."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError:  # A file system that does not sync folders.
        pass
    finally:
        os.close(opened)


def _remove_old_parts(folder: Path) -> None:
    for part in folder.glob("*.part"):
        try:
            if time.time() - part.stat().st_mtime > PART_S:
                part.unlink()
        except OSError:  # Another process has removed it, or it is another user's.
            continue


def _check(stop: threading.Event) -> None:
    """A thread outlives the call that waits for it."""
    if stop.is_set():
        raise InterruptedError("nobody waits for these samples any more")


async def _shared(client: TemporalClient, task_queue: str, size: int) -> Dict[str, Any]:
    """Where workers read, if this process can put files there. Raises how else they get there."""
    inputs = await _ask(client, task_queue, None)
    token = uuid.uuid4().hex
    file = f"{inputs['inputs_dir']}/{FOLDER}/{token}.token"
    is_made = False
    try:
        try:
            is_made = await asyncio.to_thread(_put_token, file, token)
        except OSError as error:
            said = f"{error.strerror}: {error.filename or file}" if error.strerror else str(error)
            why = f"here that is not possible ({said})"
        except ImportError as error:
            why = f"here that is not possible ({error})"
        else:
            inputs = await _ask(client, task_queue, token)
            if inputs["sees"]:
                is_made = False
                return inputs
            why = "what this process writes there is not what the worker reads"
    finally:
        await asyncio.shield(asyncio.to_thread(_forget_token, file, is_made))
    raise InvalidBatchRequest(
        f"samples: expected at most {INLINE_BYTES // 1024} kB in a request, got {size} bytes or more; and a file of them has to "
        f"be below {inputs['inputs_dir']}, the inputs_dir of worker {inputs['worker']}: {why}. Start this on the worker's host; "
        "or give both hosts one disk or bucket there (inputs_dir in the worker's temporal.yaml names another folder); or write the "
        'samples to a JSONL file there yourself and give {"path": …}, from that folder on'
    )


def _put_token(name: str, token: str) -> bool:
    """Returns whether the folder is new. ``inputs_dir`` itself has to be there."""
    if name.startswith("s3://"):
        put_object(name, token.encode())
        return False
    file = Path(name)
    folder = file.parent
    try:
        folder.mkdir()
        is_made = True
    except FileExistsError:
        is_made = False
    with open(file, "x") as opened:
        opened.write(token)
        opened.flush()
        os.fsync(opened.fileno())
    ignored = folder / ".gitignore"
    if not ignored.exists():
        ignored.write_text("*\n")
    return is_made


def _forget_token(name: str, is_alone: bool) -> None:
    """``is_alone``: nothing else is to stay of it, since nobody reads this folder."""
    try:
        if name.startswith("s3://"):
            return remove_object(name)
        file = Path(name)
        file.unlink(missing_ok=True)
        if is_alone:
            (file.parent / ".gitignore").unlink(missing_ok=True)
            file.parent.rmdir()
    except (OSError, ImportError):  # It was never written, or another process has put something beside it.
        pass


async def _ask(client: TemporalClient, task_queue: str, token: Optional[str]) -> Dict[str, Any]:
    """Only a worker knows where samples are put."""
    began = time.monotonic()

    async def why() -> Optional[str]:
        return await why_silent(client, task_queue, since=began, what="the start")

    return await Waits(why, told("samples")).during(_answer(client, task_queue, token))


async def _answer(client: TemporalClient, task_queue: str, token: Optional[str]) -> Dict[str, Any]:
    question = raw_json({"token": token})

    async def ask() -> Dict[str, Any]:
        answer: Dict[str, Any] = await client.execute_workflow(
            "inputs",
            question,
            id=f"inputs/{uuid.uuid4()}",
            task_queue=task_queue,
            execution_timeout=ANSWERED_WITHIN,
        )
        return answer

    while True:
        try:
            return await patiently(ask)
        except WorkflowFailureError as error:
            if isinstance(error.cause, TimedOutWorkflow):
                continue
            fault = fault_of(error)
            if "workflow type: expected" not in str(fault):
                raise fault from None
            raise InvalidBatchRequest(
                f"samples: expected at most {INLINE_BYTES // 1024} kB in a request, got more, and a worker of an earlier release, "
                'which does not say where its inputs_dir is; write them to a JSONL file below it and give {"path": …}'
            ) from None
