"""The parts of a tokenizer as objects of ``tokenizers``, and whole tokenizers for ``transformers``."""

from __future__ import annotations

import copy
import importlib
from typing import Any

from windrow._windrow import Tokenizer

__all__ = ["as_hf", "part", "train"]


def part(tokenizer: Tokenizer, name: str) -> Any:
    """The normalizer, the pre-tokenizer, the model, the post-processor or the decoder."""
    found = tokenizer._part(name)
    if found is None:
        return None
    library = importlib.import_module("tokenizers").Tokenizer
    model = "" if name == "model" else '"model": {"type": "BPE", "vocab": {}, "merges": []}, '
    return getattr(library.from_str(f'{{"version": "1.0", "added_tokens": [], {model}"{name}": {found}}}'), name)


def train(tokenizer: Tokenizer, method: str, *arguments: Any) -> None:
    """Trains the model by a method of ``tokenizers``."""
    library = importlib.import_module("tokenizers").Tokenizer.from_str(tokenizer.to_str())
    getattr(library, method)(*arguments)
    tokenizer._read(library.to_str())


def as_hf(tokenizer: Tokenizer, like: Any = None, **settings: Any) -> Any:
    """A fast tokenizer of ``transformers`` that encodes with this one."""
    if like is None:
        return importlib.import_module("transformers").PreTrainedTokenizerFast(tokenizer_object=tokenizer, **settings)
    made = copy.copy(like)
    made._tokenizer = copy.copy(tokenizer)
    known = made._tokenizer.get_added_tokens_decoder()
    made.add_tokens([token for id, token in like.added_tokens_decoder.items() if known.get(id) != token])
    for name, value in settings.items():
        setattr(made, name, value)
    return made
