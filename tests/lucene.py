"""An independent BM25 with Lucene's idf: the package rank-bm25, against which our scores are held."""

from __future__ import annotations

import math
from typing import Any

from rank_bm25 import BM25Okapi


class LuceneBM25(BM25Okapi):
    """BM25Okapi with ln(1 + (N - n + 0.5) / (n + 0.5)) as the weight of a term."""

    idf: dict[str, float]
    corpus_size: int

    def _calc_idf(self, nd: dict[str, Any]) -> None:
        self.idf = {term: math.log(1 + (self.corpus_size - count + 0.5) / (count + 0.5)) for term, count in nd.items()}
