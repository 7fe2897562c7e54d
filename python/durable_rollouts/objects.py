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
from typing import Any, Dict, Iterator, List, Optional, Tuple
from urllib.parse import unquote, urlsplit

from .faults import StoreFault

MEMBER = re.compile(r"(.+\.json)#(rollouts|failures|groups|sequences)")
AT_ONCE = 8
DOWNLOADS, PAUSE_S = 6, 0.1
ABSENT = ("404", "NoSuchKey", "NotFound")


def path_of(file: str) -> Path:
    """Of a path or a ``file:`` URI."""
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
    with _asking(file) as (client, at):
        return _downloaded(client, at)


def _downloaded(client: Any, at: Dict[str, str]) -> bytes:
    """The client repeats requests, not downloads that break off behind their first bytes."""
    _, refused, _ = _s3()
    for tries in range(1, DOWNLOADS + 1):
        try:
            body: bytes = client.get_object(**at)["Body"].read()
            return body
        except (refused.IncompleteReadError, refused.ResponseStreamingError, refused.ReadTimeoutError):
            if tries == DOWNLOADS:
                raise
        time.sleep(PAUSE_S * tries)
    raise AssertionError("it was returned or raised")


def put_object(file: str, content: bytes) -> None:
    with _asking(file) as (client, at):
        client.put_object(Body=content, **at)


def upload(file: str, path: Path) -> bool:
    """A whole file as an object, unless one of that name and size is there: whether it was put."""
    with _asking(file) as (client, at):
        try:
            if client.head_object(**at)["ContentLength"] == path.stat().st_size:
                return False
        except client.exceptions.ClientError as error:
            if error.response["Error"]["Code"] not in ABSENT:
                raise
        client.upload_file(str(path), at["Bucket"], at["Key"])
        return True


def remove_object(file: str) -> None:
    with _asking(file) as (client, at):
        client.delete_object(**at)


@contextmanager
def _asking(file: str) -> Iterator[Tuple[Any, Dict[str, str]]]:
    """Raises ``FileNotFoundError`` for no such object, and ``OSError`` without its store."""
    bucket, key = file[len("s3://") :].split("/", 1)
    client, refused, transfer = _s3()
    try:
        yield client, {"Bucket": bucket, "Key": key}
    except refused.ClientError as error:
        code = error.response["Error"]["Code"]
        if code == "NoSuchKey":
            raise FileNotFoundError(errno.ENOENT, "there is no such object", file) from None
        raise OSError(f"{file}: {code}: {error.response['Error'].get('Message', '')}") from None
    except (refused.BotoCoreError, transfer.Boto3Error) as error:
        raise OSError(f"{file}: {error}") from None


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
    """Of all objects, in order; some are asked for at once."""
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
