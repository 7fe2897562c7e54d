"""BM25 as upstream's retriever computes it, over an index that stays in its files."""

import math
from collections import Counter, namedtuple

import numpy as np

from .kept import kept_index
from .tokenizers import tokenizer_of

# `id`: its position in the corpus, from 0.
Document = namedtuple("Document", "id text score")


class Retriever:
    """The documents of `corpus`: a JSONL, Arrow or Parquet file, or a folder of `datasets`.

    Its index is built once for each content, column and tokenizer, and kept in the user's cache, or in `cache`. The
    system reads what a search needs of it. Searches may come from several threads.
    """

    def __init__(
        self,
        corpus,
        *,
        text_column="text",
        split=None,
        num_results=10,
        k1=1.5,
        b=0.75,
        tokenizer="alphanumeric",
        vocabulary=None,
        cache=None,
    ):
        self.num_results, self.k1, self.b = num_results, k1, b
        self._tokenize = tokenizer_of(tokenizer, vocabulary)
        self._index = kept_index(corpus, split, text_column, tokenizer, vocabulary, self._tokenize, cache)
        self.document_count = len(self._index.lengths)
        self._average = int(self._index.lengths.sum(dtype=np.int64)) / self.document_count

    def search(self, query, num_results=None):
        """The best documents, best first; equal scores, also of 0, in the order of the corpus."""
        count = min(self.num_results if num_results is None else num_results, self.document_count)
        scores = self._scores(query)
        best = _best_of(scores, count)
        if len(best) < count:
            best = np.concatenate([best, _first_zeros(scores, count - len(best))])
        return [Document(int(i), self._index.text(int(i)), float(scores[i])) for i in best]

    def _scores(self, query):
        scores = np.zeros(self.document_count)
        for token, times in Counter(self._tokenize(query)).items():
            term = self._index.vocabulary.get(token)
            if term is None:
                continue
            postings = self._index.postings_of(term)
            documents, tf = postings[:, 0], postings[:, 1].astype(np.float64)
            df = len(postings)
            idf = math.log((self.document_count - df + 0.5) / (df + 0.5) + 1)
            damping = self.k1 * (1 - self.b + (self.b * self._index.lengths[documents]) / self._average)
            weights = ((idf * tf * (self.k1 + 1)) / (tf + damping)).astype(np.float32)
            # Each document is once among them.
            scores[documents] += times * weights.astype(np.float64)
        return scores


def _best_of(scores, count):
    found = np.flatnonzero(scores)
    if count <= 0:
        return found[:0]
    if len(found) > count:
        least = np.partition(scores[found], -count)[-count]
        found = found[scores[found] >= least]
    return found[np.lexsort((found, -scores[found]))][:count]


def _first_zeros(scores, count):
    return np.flatnonzero(scores == 0)[:count]
