"""Files, or objects on S3: results that a ``metrics.json`` names (docs/training-data.md), and samples that are put there."""

from __future__ import annotations

import errno
import hashlib
import importlib
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, TypeVar
from urllib.parse import unquote, urlsplit

from .connection import log
from .faults import StoreFault

T = TypeVar("T")

MEMBER = re.compile(r"(.+\.json)#(rollouts|failures|groups|sequences)")
AT_ONCE = 8
AWAY_S, PAUSE_S, LONGEST_PAUSE_S = 60.0, 0.1, 5.0
BUSY = ("SlowDown", "TooManyRequests", "429")
ABSENT = ("404", "NoSuchKey", "NotFound")


def path_of(file: str) -> Path:
    """The path that a path or a ``file:`` URI names."""
    parts = urlsplit(file)
    if parts.scheme not in ("", "file"):
        raise ValueError(f"expected a path, a file: URI or an s3: URI, got {file}; read it with its store's own client")
    return Path(unquote(parts.path) if parts.scheme == "file" else file)


def folder_of(file: str) -> str:
    """What is before the last slash."""
    return file.rsplit("/", 1)[0]


def content_of(file: str) -> bytes:
    """A whole file or object. Raises ``FileNotFoundError`` for none, and ``OSError`` without its store."""
    if not file.startswith("s3://"):
        return path_of(file).read_bytes()
    body: bytes = _asked(file, lambda client, at: client.get_object(**at)["Body"].read())
    return body


def put_object(file: str, content: bytes) -> None:
    _asked(file, lambda client, at: client.put_object(Body=content, **at))


def upload(file: str, path: Path) -> bool:
    """A whole file as an object, unless one of that name and size is there: whether it was put."""

    def put(client: Any, at: Dict[str, str]) -> bool:
        try:
            if client.head_object(**at)["ContentLength"] == path.stat().st_size:
                return False
        except client.exceptions.ClientError as error:
            if error.response["Error"]["Code"] not in ABSENT:
                raise
        client.upload_file(str(path), at["Bucket"], at["Key"])
        return True

    return _asked(file, put)


def remove_object(file: str) -> None:
    _asked(file, lambda client, at: client.delete_object(**at))


def _asked(file: str, ask: Callable[[Any, Dict[str, str]], T]) -> T:
    """Raises ``FileNotFoundError`` for no such object, and ``OSError`` without its store. One that is away is asked again for
    a minute, as workers do for longer: its own client gives up after a second, and repeats no download that breaks off.
    """
    until, pause_s = time.monotonic() + AWAY_S, PAUSE_S
    while True:
        try:
            with _asking(file) as (client, at):
                return ask(client, at)
        except _Away as away:
            if pause_s == PAUSE_S:
                log.warning("waiting for %s", away)
            if time.monotonic() > until:
                raise OSError(f"{away} ({AWAY_S:.0f} s)") from None
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


class _Away(Exception):
    """The store does not answer, or answers that it cannot now."""


@contextmanager
def _asking(file: str) -> Iterator[Tuple[Any, Dict[str, str]]]:
    """The same once. Raises ``_Away`` where another try may help."""
    bucket, key = file[len("s3://") :].split("/", 1)
    client, refused, transfer = _s3()
    try:
        yield client, {"Bucket": bucket, "Key": key}
    except refused.ClientError as error:
        raise _fault_of(error, file) from None
    except transfer.S3UploadFailedError as error:
        # Which hides what the store has answered.
        answered = error.__context__
        raise (_fault_of(answered, file) if isinstance(answered, refused.ClientError) else OSError(f"{file}: {error}")) from None
    except refused.SSLError as error:
        raise OSError(f"{file}: {error}") from None
    except (refused.ConnectionError, refused.HTTPClientError, refused.IncompleteReadError) as error:
        raise _Away(f"{file}: {error}") from None
    except (refused.BotoCoreError, transfer.Boto3Error) as error:
        raise OSError(f"{file}: {error}") from None


def _fault_of(error: Any, file: str) -> Exception:
    """The error for what the store has answered."""
    code = error.response["Error"]["Code"]
    if code == "NoSuchKey":
        return FileNotFoundError(errno.ENOENT, "there is no such object", file)
    said = f"{file}: {code}: {error.response['Error'].get('Message', '')}"
    is_away = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500 or code in BUSY
    return (_Away if is_away else OSError)(said)


def is_there(file: str) -> bool:
    """Whether there is such a file or object. Raises ``OSError`` without its store."""
    try:
        content_of(file)
        return True
    except FileNotFoundError:
        return False


def lines_of(file: str) -> Iterator[bytes]:
    """The lines of a JSONL file, or of the objects that are one, in order. Raises ``StoreFault`` for others than named."""
    member = MEMBER.fullmatch(file)
    if member is None and not file.startswith("s3://"):
        with path_of(file).open("rb") as lines:
            yield from lines
        return
    for content in [content_of(file)] if member is None else map(_checked, objects_of(file) or []):
        yield from (line for line in content.split(b"\n") if line)


def objects_of(file: str) -> Optional[List[Tuple[str, Dict[str, Any]]]]:
    """The objects that are one file, and what their manifest says of each. None: it is a file itself."""
    member = MEMBER.fullmatch(file)
    if member is None:
        return None
    manifest, kind = member.groups()
    objects = json.loads(content_of(manifest)).get("objects")
    if not isinstance(objects, dict) or kind not in objects:
        raise StoreFault(f"{manifest}: expected objects of {kind}, got none")
    return [(f"{folder_of(manifest)}/{one['key']}", one) for one in objects[kind]]


def contents_of(objects: List[Tuple[str, Dict[str, Any]]]) -> List[bytes]:
    """The contents of all objects, in order; some are asked for at once."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(_checked, objects))


def _checked(one: Tuple[str, Dict[str, Any]]) -> bytes:
    """A part of an object, or another one, is not what was written."""
    file, named = one
    try:
        content = content_of(file)
    except FileNotFoundError:
        raise StoreFault(f"{file}: expected the object that its manifest names, and there is none") from None
    if len(content) != named["bytes"] or hashlib.sha256(content).hexdigest() != named["sha256"]:
        raise StoreFault(f"{file}: expected {named['bytes']} bytes with SHA-256 {named['sha256']} (its manifest), got {len(content)} others")
    return content


@lru_cache(maxsize=1)
def _s3() -> Tuple[Any, Any, Any]:
    """Endpoint, region and credentials are those of AWS's own programs: AWS_ENDPOINT_URL_S3, AWS_PROFILE, …"""
    try:
        config = importlib.import_module("botocore.config").Config(retries={"mode": "standard", "total_max_attempts": 6}, max_pool_connections=2 * AT_ONCE)
        client = importlib.import_module("boto3").client("s3", config=config)
        return client, importlib.import_module("botocore.exceptions"), importlib.import_module("boto3.exceptions")
    except ImportError:
        raise ImportError('objects on S3 are read and put by boto3: pip install "durable-rollouts[s3]"') from None
