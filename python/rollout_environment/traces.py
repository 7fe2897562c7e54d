"""Where an environment's own code failed: for the log, for its author, and shortened for a failure's message."""

import linecache
import os
import sys
import traceback

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def trace_of(error):
    """The traceback as Python prints it, without this package's frames."""
    lines = traceback.TracebackException.from_exception(error)
    part = lines
    while part is not None:
        part.stack = traceback.StackSummary.from_list([f for f in part.stack if not _is_ours(f.filename)])
        part = part.__cause__ or part.__context__
    return "".join(lines.format()).strip()


def plain(text):
    """For a terminal: exceptions quote what a policy said, and its characters are shown instead of acting."""
    return "".join(c if c == "\n" or c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def at(where):
    return "" if where is None else f" (at {where})"


def place_of(error):
    """`puzzle.py:41 in step: truth = metadata["ground_truth"]`, for the innermost frame outside libraries; or None."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not _is_ours(f.filename)]
    own = [f for f in frames if not _is_library(f.filename)] or frames
    return _place(own[-1].filename, own[-1].lineno, own[-1].name) if own else None


def place_of_thread(ident):
    """The same for what a thread does at the moment."""
    frame = sys._current_frames().get(ident)
    frames = [] if frame is None else traceback.extract_stack(frame)
    own = [f for f in frames if not _is_ours(f.filename) and not _is_library(f.filename)]
    return _place(own[-1].filename, own[-1].lineno, own[-1].name) if own else None


def place_in_dump(text):
    """The same from the output of faulthandler: of the current thread, else of all that may be it."""
    places = {}
    for thread in text.split("\n\n"):
        place = next(filter(None, map(_place_in_line, thread.splitlines())), None)
        if place is not None and thread.startswith("Current thread"):
            return place
        places[place] = None
    places.pop(None, None)
    return " or ".join(places) or None


def _place_in_line(line):
    head, separator, name = line.strip().rpartition(" in ")
    if not separator or not head.startswith('File "'):
        return None
    path, _, number = head[len('File "') :].rpartition('", line ')
    is_own = number.isdigit() and not _is_ours(path) and not _is_library(path)
    return _place(path, int(number), name) if is_own else None


def _place(path, number, name):
    source = linecache.getline(path, number).strip()
    return f"{os.path.basename(path)}:{number} in {name}" + (f": {source}" if source else "")


def _is_ours(path):
    return os.path.abspath(path).startswith(_PACKAGE)


def _is_library(path):
    folder = os.path.dirname(os.__file__)
    return path.startswith("<") or "site-packages" in path or path.startswith(folder + os.sep)
