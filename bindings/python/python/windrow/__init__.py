"""Batches of text to token ids in flat memory, at the speed of the machine.

>>> import windrow
>>> tokenizer = windrow.Tokenizer.from_tiktoken("gpt2")
>>> batch = tokenizer.encode_batch_ids(["Hello world", "", "Hello"])
>>> batch.tolist()
[[15496, 995], [], [15496]]

``batch.values`` and ``batch.offsets`` are flat memory, which numpy, pyarrow, polars and duckdb read without a copy.

>>> encoding = tokenizer.encode("Hello wörld")
>>> encoding.tokens, encoding.offsets
(['Hello', 'Ġw', 'Ã¶r', 'ld'], [(0, 5), (5, 7), (7, 9), (9, 11)])
"""

from collections.abc import Iterable

from windrow._windrow import Column, DecodeStream, Encoding, Ragged, Tokenizer, __version__
from windrow.added import AddedToken
from windrow.batcher import Batcher
from windrow.errors import ItemError, TokenizerError, WindrowError

__all__ = [
    "AddedToken",
    "Batcher",
    "Column",
    "DecodeStream",
    "Encoding",
    "ItemError",
    "Ragged",
    "Tokenizer",
    "TokenizerError",
    "WindrowError",
    "__version__",
    "encode_batch_ids",
]


def encode_batch_ids(
    tokenizer: object, texts: Iterable[str | bytes] | object, add_special_tokens: bool = False
) -> Ragged:
    """The ids of all texts, by a ``Tokenizer`` or by what ``Tokenizer(...)`` takes.

    A tokenizer of another library is copied at each call, because it may have changed; make a ``Tokenizer`` of it to encode more
    than once.
    """
    ours = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer(tokenizer)
    return ours.encode_batch_ids(texts, add_special_tokens)
