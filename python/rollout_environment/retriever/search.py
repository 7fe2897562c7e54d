"""BM25 as upstream's retriever computes it, over an index that stays in its files."""

import math
import os
from collections import Counter
from typing import List, NamedTuple, Optional, Union

import numpy as np

from .hub import path_of
from .kept import kept_index
from .tokenizers import tokenizer_of

Path = Union[str, "os.PathLike[str]"]


class Document(NamedTuple):
    """What a search finds.

    id: its position in the corpus, from 0
    text: of its text column
    score: BM25's; 0: no term of the query
    """

    id: int
    text: str
    score: float


class Retriever:
    """BM25 over the documents of a corpus.

    corpus: path of a JSONL, Arrow or Parquet file, or of a folder of ``datasets``, or a name of the Hub (``hf://…``)
    text_column: the column of the text
    split: of a folder of ``datasets`` that has several
    num_results: how many documents a search finds
    k1, b: BM25's
    tokenizer: its name: ``alphanumeric``, or ``wordpiece`` with a ``vocabulary``
    vocabulary: path of a vocabulary, or a name of the Hub
    cache: where indexes are kept; None: the user's cache

    document_count: how many documents there are

    Raises ``ValueError`` and ``OSError`` for a corpus that cannot be read.

        wiki = Retriever("/data/wiki", split="train")

    Its index is built once for each content, column and tokenizer, and kept. The system reads what a search needs of
    it. Searches may come from several threads.
    """

    def __init__(
        self,
        corpus: Path,
        *,
        text_column: str = "text",
        split: Optional[str] = None,
        num_results: int = 10,
        k1: float = 1.5,
        b: float = 0.75,
        tokenizer: str = "alphanumeric",
        vocabulary: Optional[Path] = None,
        cache: Optional[Path] = None,
    ) -> None:
        self.num_results, self.k1, self.b = num_results, k1, b
        corpus, vocabulary = path_of(corpus), None if vocabulary is None else path_of(vocabulary)
        self._tokenize = tokenizer_of(tokenizer, vocabulary)
        self._index = kept_index(corpus, split, text_column, tokenizer, vocabulary, self._tokenize, cache)
        self.document_count = len(self._index.lengths)
        self._average = int(self._index.lengths.sum(dtype=np.int64)) / self.document_count

    def search(self, query: str, num_results: Optional[int] = None) -> List[Document]:
        """The best documents.

        query: text
        num_results: how many; None: those of the retriever

        Returns documents, best first; equal scores, also of 0, in the order of the corpus. Raises nothing of its own.

            for document in wiki.search("Jen-Hsun Huang"):
                print(document.score, document.text)
        """
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
