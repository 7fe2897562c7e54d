"""Where an index is kept, and how it is opened. Its name is a hash of all that it depends on, as the worker's is."""

import hashlib
import json
import os
import shutil
import sys
import time
import uuid
from pathlib import Path

import numpy as np

from .builder import FACTS, LENGTHS, POSTINGS, STARTS, TERMS, TEXT_STARTS, TEXTS, build
from .corpus import files_of, texts_of

VERSION = "1"
BUILDING = ".building"
DAY_S = 24 * 60 * 60


class Index:
    def __init__(self, folder, facts):
        documents, terms, postings = facts["documents"], facts["terms"], facts["postings"]
        names = (folder / TERMS).read_bytes().decode()
        self.vocabulary = {term: i for i, term in enumerate(names.split("\n"))} if terms else {}
        self.lengths = np.fromfile(folder / LENGTHS, "<u4")
        self._starts = np.fromfile(folder / STARTS, "<f8").astype(np.int64)
        self._text_starts = np.fromfile(folder / TEXT_STARTS, "<f8").astype(np.int64)
        self._postings = _mapped(folder / POSTINGS, "<u4", (postings, 2))
        self._texts = _mapped(folder / TEXTS, "u1", (facts["text_bytes"],))
        expected = {LENGTHS: 4 * documents, STARTS: 8 * (terms + 1), TEXT_STARTS: 8 * (documents + 1)}
        if any((folder / name).stat().st_size != size for name, size in expected.items()) or len(self.vocabulary) != terms:
            raise ValueError(f"{folder}: expected a whole index")

    def postings_of(self, term):
        return self._postings[self._starts[term] : self._starts[term + 1]]

    def text(self, document):
        return self._texts[self._text_starts[document] : self._text_starts[document + 1]].tobytes().decode("utf-8", "replace")


def kept_index(corpus, split, text_column, tokenizer, vocabulary, tokenize, cache):
    kind, files = files_of(corpus, split)
    folder = Path(cache) if cache is not None else cache_folder()
    parts = [VERSION, tokenizer, text_column, kind, "" if vocabulary is None else _hash_of(vocabulary)]
    parts += map(_hash_of, files)
    own = folder / hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
    was_there = own.exists()
    kept = _open(own)
    if kept is not None:
        return kept
    _remove_abandoned(folder)
    if was_there:
        _remove_damaged(own)
    building = own.with_name(f"{own.name}{BUILDING}-{uuid.uuid4()}")
    building.mkdir(parents=True)
    try:
        if build(building, texts_of(kind, files, text_column), tokenize) == 0:
            raise ValueError(f"{corpus}: expected documents, got none")
        _settle(building, own)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return _open(own)


def cache_folder():
    """The user's cache: `XDG_CACHE_HOME`, else the platform's folder."""
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    home = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return (Path(xdg) if os.path.isabs(xdg) else home) / "durable-rollouts" / "retriever"


def _settle(building, own):
    """Under its name it is whole. Of several that build it at once, the first one's stays."""
    try:
        building.rename(own)
    except OSError:
        if _open(own) is None:
            raise


def _remove_damaged(own):
    """Moved first: nobody opens a half of it."""
    aside = own.with_name(f"{own.name}{BUILDING}-{uuid.uuid4()}")
    try:
        own.rename(aside)
    except OSError:
        return
    shutil.rmtree(aside, ignore_errors=True)


def _open(folder):
    """None: there is none, or not a whole one."""
    try:
        return Index(folder, json.loads((folder / FACTS).read_text()))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def _mapped(file, kind, shape):
    """Raises a ValueError for another size. An empty file cannot be mapped."""
    if file.stat().st_size != np.dtype(kind).itemsize * int(np.prod(shape)):
        raise ValueError(f"{file}: expected a whole file")
    return np.memmap(file, kind, "r", shape=shape) if shape[0] else np.empty(shape, kind)


def _hash_of(file):
    digest = hashlib.sha256()
    with open(file, "rb") as content:
        while chunk := content.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _remove_abandoned(folder):
    """Removes indexes whose builders were killed."""
    for building in folder.glob(f"*{BUILDING}-*"):
        try:
            if time.time() - building.stat().st_mtime > DAY_S:
                shutil.rmtree(building)
        except OSError:
            pass
