"""Search for Python environments: BM25 over a corpus, with the answers and the kept index of kind `retriever`.

Needs numpy, and pyarrow for Arrow and Parquet.
"""

from .search import Document, Retriever

__all__ = ["Document", "Retriever"]
