"""Batches of text to token ids in flat memory, at the speed of the machine.

>>> import windrow
>>> tokenizer = windrow.Tokenizer.from_tiktoken("gpt2")
>>> batch = tokenizer.encode_batch_ids(["Hello world", "", "Hello"])
>>> batch.tolist()
[[15496, 995], [], [15496]]

``batch.values`` and ``batch.offsets`` are flat memory, which numpy, pyarrow, polars and duckdb read without a copy.
"""

from windrow._windrow import Column, Ragged, Tokenizer, __version__
from windrow.errors import ItemError, TokenizerError, WindrowError

__all__ = [
    "Column",
    "ItemError",
    "Ragged",
    "Tokenizer",
    "TokenizerError",
    "WindrowError",
    "__version__",
]
