"""Builds an index, byte for byte as the worker does: blocks of postings in a file, merged at the end."""

import json
from array import array
from collections import Counter

import numpy as np

FACTS, TERMS, STARTS, POSTINGS = "index.json", "terms.txt", "starts.f64", "postings.u32"
LENGTHS, TEXT_STARTS, TEXTS = "lengths.u32", "text-starts.f64", "texts.utf8"
# So many are in memory, some 40 bytes each while a block is written.
MOST_POSTINGS = 1 << 22


def build(folder, texts, tokenize, most_postings=MOST_POSTINGS):
    """In an empty folder. Gives the number of documents."""
    vocabulary = {}
    lengths, text_starts, length = array("I"), array("d", [0]), 0
    with open(folder / "blocks.tmp", "w+b") as scratch, open(folder / TEXTS, "wb") as written:
        blocks = _Blocks(scratch)
        for document, text in enumerate(texts):
            tokens = tokenize(text)
            for term, count in Counter(tokens).items():
                blocks.add(vocabulary.setdefault(term, len(vocabulary)), document, count)
            lengths.append(len(tokens))
            encoded = text.encode()
            written.write(encoded)
            length += len(encoded)
            text_starts.append(length)
            if len(blocks.terms) >= most_postings:
                blocks.flush(len(vocabulary))
        blocks.flush(len(vocabulary))
        starts = np.concatenate([[0], np.cumsum(blocks.frequencies(len(vocabulary)))])
        with open(folder / POSTINGS, "wb") as postings:
            for part in blocks.merged(starts, most_postings):
                part.tofile(postings)
    (folder / "blocks.tmp").unlink()
    starts.astype("<f8").tofile(folder / STARTS)
    np.array(lengths, "<u4").tofile(folder / LENGTHS)
    np.array(text_starts, "<f8").tofile(folder / TEXT_STARTS)
    (folder / TERMS).write_bytes("\n".join(vocabulary).encode())
    facts = {"documents": len(lengths), "terms": len(vocabulary), "postings": int(starts[-1]), "text_bytes": length}
    (folder / FACTS).write_text(json.dumps(facts, separators=(",", ":")) + "\n")
    return len(lengths)


class _Blocks:
    """Postings of consecutive documents, by term: a term's postings are those of its blocks, one by one."""

    def __init__(self, file):
        self.file = file
        self.blocks = []
        self._clear()

    def add(self, term, document, count):
        self.terms.append(term)
        self.documents.append(document)
        self.counts.append(count)

    def flush(self, term_count):
        if not self.terms:
            return
        terms = np.array(self.terms, "<u4")
        order = np.argsort(terms, kind="stable")
        postings = np.stack([np.array(self.documents, "<u4")[order], np.array(self.counts, "<u4")[order]], axis=1)
        starts = np.concatenate([[0], np.cumsum(np.bincount(terms, minlength=term_count))]).astype("<u4")
        self.blocks.append((self._written(starts), term_count, self._written(postings), len(postings)))
        self._clear()

    def frequencies(self, term_count):
        total = np.zeros(term_count, np.int64)
        for block in self.blocks:
            total[: block[1]] += np.diff(self._starts(block).astype(np.int64))
        return total

    def merged(self, starts, most):
        """All postings in the order of the index, in parts of `most`, or of one term that has more."""
        first = 0
        while first < len(starts) - 1:
            end = max(first + 1, int(np.searchsorted(starts, starts[first] + most, "right")) - 1)
            yield self._part(first, end, starts)
            first = end

    def _part(self, first, end, starts):
        merged = np.empty((starts[end] - starts[first], 2), "<u4")
        place = starts[first:end] - starts[first]
        for block in self.blocks:
            last = min(end, block[1])
            if last <= first:
                continue
            own = self._starts(block)[first : last + 1].astype(np.int64)
            sizes = np.diff(own)
            to = np.repeat(place[: last - first] - (own[:-1] - own[0]), sizes) + np.arange(own[-1] - own[0])
            merged[to] = self._postings(block)[own[0] : own[-1]]
            place[: last - first] += sizes
        return merged

    def _written(self, values):
        at = self.file.tell()
        values.tofile(self.file)
        self.file.flush()
        return at

    def _starts(self, block):
        return np.memmap(self.file, "<u4", "r", offset=block[0], shape=block[1] + 1)

    def _postings(self, block):
        return np.memmap(self.file, "<u4", "r", offset=block[2], shape=(block[3], 2))

    def _clear(self):
        self.terms, self.documents, self.counts = array("I"), array("I"), array("I")
