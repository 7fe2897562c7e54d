"""Reads the bodies of requests, which are bounded each and together."""

import threading

from .answers import CallFailed

MOST_BYTES = 64 * 2**20
# A batch's metrics have all its rollouts in one body. All bodies together have as much.
TIMES_TOGETHER = 16
MOST_LINE = 1024
MOST_TRAILERS = 64


class BadBody(CallFailed):
    """Where the next request would begin is not known."""

    def __init__(self, message, status=400, kind="BadRequest"):
        super().__init__(status, kind, message)


class Room:
    """The bytes that all bodies have together, from when they are read until they are answered."""

    def __init__(self, most):
        self.most, self.left = most, most
        self.lock = threading.Lock()

    def share(self):
        return _Share(self)


class _Share:
    def __init__(self, room):
        self.room, self.taken = room, 0

    def take(self, size):
        with self.room.lock:
            if size > self.room.left:
                raise BadBody(f"other requests have {self.room.most - self.room.left} of {self.room.most} bytes", 503, "Busy")
            self.room.left -= size
        self.taken += size

    def give(self):
        with self.room.lock:
            self.room.left += self.taken
        self.taken = 0


def read_body(stream, headers, *, most, share):
    """Whole or in chunks (metrics are sent in chunks)."""
    lengths = headers.get_all("Content-Length", [])
    codings = headers.get_all("Transfer-Encoding", [])
    if not codings:
        return _exactly(stream, _number(lengths), 0, most, share)
    if lengths or [coding.strip().lower() for coding in codings] != ["chunked"]:
        raise BadBody("(headers): expected either Content-Length or Transfer-Encoding: chunked")
    parts, read = [], 0
    while size := _chunk_size(stream):
        parts.append(_exactly(stream, size, read, most, share))
        read += size
        if stream.readline(MOST_LINE).strip():
            raise BadBody("(body): expected the end of a chunk")
    for _ in range(MOST_TRAILERS):
        if not stream.readline(MOST_LINE).strip():
            return b"".join(parts)
    raise BadBody(f"(body): expected at most {MOST_TRAILERS} trailers")


def _number(lengths):
    if not lengths:
        return 0
    text = lengths[0].strip()
    if len(lengths) > 1 or not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise BadBody(f"Content-Length: expected a number of bytes, got {', '.join(lengths)[:100]!r}")
    return int(text)


def _chunk_size(stream):
    line = stream.readline(MOST_LINE)
    text = line.split(b";")[0].strip()
    if not line.endswith(b"\n") or not 0 < len(text) <= 15 or text.strip(b"0123456789abcdefABCDEF"):
        raise BadBody("(body): expected the size of a chunk")
    return int(text, 16)


def _exactly(stream, size, before, most, share):
    if before + size > most:
        got = f"got {before + size}" if before == 0 else "got more"
        raise BadBody(f"(body): expected at most {most} bytes (--max-body), {got}", 413, "TooLarge")
    share.take(size)
    data = stream.read(size)
    if len(data) < size:
        raise BadBody(f"(body): expected {before + size} bytes, got {before + len(data)}")
    return data
