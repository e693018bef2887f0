"""The interface of OpenAI's ``tiktoken``, with its names and its ids, over windrow's engine.

>>> import windrow.tiktoken as tiktoken
>>> encoding = tiktoken.encoding_for_model("gpt-4o")
>>> encoding.encode("hello world")
[24912, 2375]
>>> encoding.decode(encoding.encode_ordinary("hello world"))
'hello world'

Batches use all CPUs of the process: ``num_threads`` is accepted and has no effect. Nothing is downloaded.
"""

from __future__ import annotations

import base64
import functools
import json
import os
import re
import threading
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence, Set
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import TYPE_CHECKING, Literal

from windrow._windrow import Ragged, Tokenizer, encoding_name

if TYPE_CHECKING:
    import numpy
    import numpy.typing

__all__ = ["Encoding", "encoding_for_model", "encoding_name_for_model", "get_encoding", "list_encoding_names"]

Special = Literal["all"] | Set[str]
Forbidden = Literal["all"] | Collection[str]

_GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
_GPT4 = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
_GPT4O = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# Pattern of a published vocabulary, by the number of its tokens.
_PUBLISHED = {50256: _GPT2, 50280: _GPT2, 100256: _GPT4, 199998: _GPT4O}

_END, _PROMPT = "<|endoftext|>", "<|endofprompt|>"
_FILL = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")
_HARMONY = {"<|startoftext|>": 199998, _END: 199999, _PROMPT: 200018} | {
    f"<|{name}|>": id
    for name, id in [("return", 200002), ("constrain", 200003), ("channel", 200005), ("start", 200006)]
    + [("end", 200007), ("message", 200008), ("call", 200012)]
    + [(f"reserved_{id}", id) for id in chain([200000, 200001, 200004], range(200009, 200012), range(200013, 201088))]
}

# Vocabulary, pattern and special tokens of each encoding.
_NAMED: dict[str, tuple[str, str, dict[str, int]]] = {
    "gpt2": ("r50k_base", _GPT2, {_END: 50256}),
    "r50k_base": ("r50k_base", _GPT2, {_END: 50256}),
    "p50k_base": ("p50k_base", _GPT2, {_END: 50256}),
    "p50k_edit": ("p50k_base", _GPT2, {_END: 50256, **dict(zip(_FILL, range(50281, 50284)))}),
    "cl100k_base": ("cl100k_base", _GPT4, {_END: 100257, **dict(zip(_FILL, range(100258, 100261))), _PROMPT: 100276}),
    "o200k_base": ("o200k_base", _GPT4O, {_END: 199999, _PROMPT: 200018}),
    "o200k_harmony": ("o200k_base", _GPT4O, _HARMONY),
}

_made: dict[str, Encoding] = {}
_lock = threading.Lock()


def list_encoding_names() -> list[str]:
    """The names that ``get_encoding`` takes."""
    return list(_NAMED)


def get_encoding(encoding_name: str) -> Encoding:
    """The encoding with this name, loaded once per process."""
    if not isinstance(encoding_name, str):
        raise ValueError(f"Expected a string in get_encoding, got {type(encoding_name)}")
    with _lock:
        if encoding_name not in _made:
            if encoding_name not in _NAMED:
                raise ValueError(f"Unknown encoding {encoding_name}.\nhint: the known encodings are {', '.join(_NAMED)}")
            vocabulary, pattern, special = _NAMED[encoding_name]
            encoding = Encoding.__new__(Encoding)
            # Special tokens have the last ids, but for those of p50k_base.
            encoding._set(encoding_name, _vocabulary(vocabulary), pattern, special, 50280 if vocabulary == "p50k_base" else 0)
            _made[encoding_name] = encoding
        return _made[encoding_name]


def encoding_name_for_model(model_name: str) -> str:
    """The name of a model's encoding; ``KeyError`` if tiktoken does not know the model."""
    if (name := encoding_name(model_name)) is None:
        raise KeyError(f"Could not automatically map {model_name} to a tokeniser.\nhint: pass the name of an encoding to get_encoding")
    return name


def encoding_for_model(model_name: str) -> Encoding:
    """The encoding of a model; ``KeyError`` if tiktoken does not know the model."""
    return get_encoding(encoding_name_for_model(model_name))


class Encoding:
    """A vocabulary of tiktoken, with its special tokens.

    Other vocabularies are built from their ranks: ``Encoding("mine", pat_str=..., mergeable_ranks=..., special_tokens=...)``.
    """

    name: str
    """The name of the encoding."""
    max_token_value: int
    """The highest id."""

    def __init__(
        self,
        name: str,
        *,
        pat_str: str,
        mergeable_ranks: dict[bytes, int],
        special_tokens: dict[str, int],
        explicit_n_vocab: int | None = None,
    ) -> None:
        """Makes an encoding of a pattern, which cuts a text into pieces, and of the ranks of tokens, which are their ids, too."""
        if _PUBLISHED.get(len(mergeable_ranks)) == pat_str and (published := _of_ranks(mergeable_ranks)):
            tokenizer = published
        else:
            tokenizer = Tokenizer.from_str(_file(pat_str, mergeable_ranks))
        self.__dict__["_mergeable_ranks"] = mergeable_ranks
        self._set(name, tokenizer, pat_str, special_tokens, max(mergeable_ranks.values()))
        if explicit_n_vocab:
            assert len(mergeable_ranks) + len(special_tokens) == explicit_n_vocab
            assert self.max_token_value == explicit_n_vocab - 1

    def _set(self, name: str, tokenizer: Tokenizer, pattern: str, special: dict[str, int], last: int) -> None:
        self.name, self._tokenizer, self._pat_str, self._special_tokens = name, tokenizer, pattern, special
        self._all_special = frozenset(special)
        self._special_token_values = set(special.values())
        self.max_token_value = max(last, *special.values()) if special else last

    def __repr__(self) -> str:
        return f"<Encoding {self.name!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        if self is _made.get(self.name):
            return get_encoding, (self.name,)
        return _restored, (self.name, self._pat_str, self._mergeable_ranks, self._special_tokens)

    @functools.cached_property
    def _mergeable_ranks(self) -> dict[bytes, int]:
        return _ranks(self._tokenizer)

    @functools.cached_property
    def _token_bytes(self) -> dict[int, bytes]:
        ordinary = {id: token for token, id in self._mergeable_ranks.items()}
        return ordinary | {id: token.encode() for token, id in self._special_tokens.items()}

    @functools.cached_property
    def _sorted_tokens(self) -> list[bytes]:
        return sorted(self._mergeable_ranks)

    # Encoding

    def encode_ordinary(self, text: str) -> list[int]:
        """The ids of a text, in which special tokens are text."""
        return self._ordinary([text]).values.tolist()

    def encode(self, text: str, *, allowed_special: Special = frozenset(), disallowed_special: Forbidden = "all") -> list[int]:
        """The ids of a text. A special token in it raises ``ValueError``, unless it is allowed or not disallowed.

        Allowed ones become their ids. A special token that is neither allowed nor disallowed is text: ``disallowed_special=()`` makes all
        of them text.
        """
        allowed = self._allowed(text, allowed_special, disallowed_special)
        return self._with_special(text, allowed) if allowed else self.encode_ordinary(text)

    def encode_to_numpy(
        self, text: str, *, allowed_special: Special = frozenset(), disallowed_special: Forbidden = "all"
    ) -> numpy.typing.NDArray[numpy.uint32]:
        """``encode``, as an array."""
        import numpy

        allowed = self._allowed(text, allowed_special, disallowed_special)
        ids = self._with_special(text, allowed) if allowed else self._ordinary([text]).values
        return numpy.asarray(ids, numpy.uint32)

    def encode_ordinary_batch(self, text: Iterable[str], *, num_threads: int = 8) -> list[list[int]]:
        """``encode_ordinary`` of many texts."""
        return self._ordinary(text).tolist()

    def encode_batch(
        self,
        text: Iterable[str],
        *,
        num_threads: int = 8,
        allowed_special: Special = frozenset(),
        disallowed_special: Forbidden = "all",
    ) -> list[list[int]]:
        """``encode`` of many texts."""
        texts = list(text)
        allowed = [self._allowed(text, allowed_special, disallowed_special) for text in texts]
        if not any(allowed):
            return self._ordinary(texts).tolist()
        return [self._with_special(text, tokens) for text, tokens in zip(texts, allowed)]

    def encode_with_unstable(
        self, text: str, *, allowed_special: Special = frozenset(), disallowed_special: Forbidden = "all"
    ) -> tuple[list[int], list[list[int]]]:
        """The ids that stay whatever text follows, and the lists of ids that the rest may become."""
        allowed = self._allowed(text, allowed_special, disallowed_special)
        ids = self._with_special(text, allowed)
        if ids and ids[-1] in self._special_token_values:
            return ids, []
        stable, rest = self._split_unstable(ids, _after_special(text, allowed))
        found: set[tuple[int, ...]] = {(self._mergeable_ranks[token],) for token in self._starting_with(rest)} if rest else set()
        for at in range(1, len(rest)):
            for token in self._starting_with(rest[at:]):
                found.add(tuple(self._covering(self._retokenized(rest[:at] + token), len(rest))))
        # A split may appear before white space at the end.
        last = _last_character(rest)
        if last and len(last) < len(rest) and last.decode().isspace():
            found.add((*self._merged(rest[: -len(last)]), *self._merged(last)))
        return stable, [list(ids) for ids in found]

    def encode_single_token(self, text_or_bytes: str | bytes) -> int:
        """The id of a token, which may be a special one; ``KeyError`` if there is no such token."""
        token = text_or_bytes.encode() if isinstance(text_or_bytes, str) else text_or_bytes
        rank = self._mergeable_ranks.get(token)
        if rank is None:
            rank = self._special_tokens.get(token.decode(errors="surrogateescape"))
        if rank is None:
            raise KeyError(text_or_bytes)
        return rank

    # Decoding

    def decode_bytes(self, tokens: Sequence[int]) -> bytes:
        """The bytes of ids; a ``KeyError`` reports an id without a token."""
        return b"".join(self.decode_tokens_bytes(tokens))

    def decode(self, tokens: Sequence[int], errors: str = "replace") -> str:
        """The text of ids; ``errors`` determines what happens to bytes that are not UTF-8, as in ``bytes.decode``."""
        return self.decode_bytes(tokens).decode("utf-8", errors)

    def decode_single_token_bytes(self, token: int) -> bytes:
        """The bytes of an id; ``KeyError`` if it has no token."""
        return self._token_bytes[token]

    def decode_tokens_bytes(self, tokens: Sequence[int]) -> list[bytes]:
        """The bytes of each id."""
        return [*map(self._token_bytes.__getitem__, tokens)]

    def decode_with_offsets(self, tokens: Sequence[int]) -> tuple[str, list[int]]:
        """The text of ids, and the index of the character at which each id begins: the first character of which the id has a byte."""
        parts, length, offsets = self.decode_tokens_bytes(tokens), 0, []
        for part in parts:
            offsets.append(max(0, length - (0x80 <= part[0] < 0xC0)))
            length += sum(not 0x80 <= byte < 0xC0 for byte in part)
        return b"".join(parts).decode("utf-8", "strict"), offsets

    def decode_batch(self, batch: Iterable[Sequence[int]], *, errors: str = "replace", num_threads: int = 8) -> list[str]:
        """``decode`` of many lists."""
        return [self.decode(tokens, errors) for tokens in batch]

    def decode_bytes_batch(self, batch: Iterable[Sequence[int]], *, num_threads: int = 8) -> list[bytes]:
        """``decode_bytes`` of many lists."""
        return [self.decode_bytes(tokens) for tokens in batch]

    # The vocabulary

    def token_byte_values(self) -> list[bytes]:
        """The bytes of all tokens but the special ones, in the order of the bytes."""
        return list(self._sorted_tokens)

    @property
    def eot_token(self) -> int:
        """The id of ``<|endoftext|>``."""
        return self._special_tokens[_END]

    @property
    def special_tokens_set(self) -> set[str]:
        """The special tokens."""
        return set(self._all_special)

    def is_special_token(self, token: int) -> bool:
        """True for the id of a special token."""
        return token in self._special_token_values

    @property
    def n_vocab(self) -> int:
        """One more than the highest id."""
        return self.max_token_value + 1

    # Of tiktoken's own, which its tests call

    def _encode_single_piece(self, text_or_bytes: str | bytes) -> list[int]:
        return self._merged(text_or_bytes.encode() if isinstance(text_or_bytes, str) else text_or_bytes)

    def _encode_bytes(self, text: bytes) -> list[int]:
        try:
            return self.encode_ordinary(text.decode())
        except UnicodeDecodeError as error:
            whole = text[: error.start].decode()
            stable, rest = self._split_unstable(self.encode_ordinary(whole), whole)
            return stable + self._merged(rest + text[error.start :])

    # How

    def _ordinary(self, texts: Iterable[str]) -> Ragged:
        return self._tokenizer.encode_batch_ids(texts, add_special_tokens=False, errors="replace")

    def _allowed(self, text: str, allowed: Special, disallowed: Forbidden) -> frozenset[str]:
        """The allowed tokens, if the text may have one. Fails if it has a disallowed one."""
        allowed_set = self._all_special if allowed == "all" else frozenset(allowed)
        refused = self._all_special - allowed_set if disallowed == "all" else frozenset(disallowed)
        if refused and (found := _search(refused, text)):
            token = found.group()
            raise ValueError(
                f"Encountered text corresponding to disallowed special token {token!r}.\n"
                f"hint: allowed_special={{{token!r}}} makes it a special token, and disallowed_special=() makes all of them text"
            )
        allowed_set &= self._all_special
        return allowed_set if allowed_set and _search(allowed_set, text) else frozenset()

    def _with_special(self, text: str, allowed: frozenset[str]) -> list[int]:
        """The ids of a text with these special tokens."""
        if not allowed:
            return self.encode_ordinary(text)
        parts = _pattern(allowed)[1].split(text)
        ids = self._ordinary(parts[::2]).tolist()
        for number, token in enumerate(parts[1::2]):
            ids[number].append(self._special_tokens[token])
        return [*chain.from_iterable(ids)]

    def _split_unstable(self, ids: list[int], text: str) -> tuple[list[int], bytes]:
        """The ids of the pieces that more text cannot change, and the bytes of the others. `text` is what follows the last special token."""
        words = self._tokenizer.encode(text, add_special_tokens=False).word_ids if text else []
        count = len(words) - bisect_left(words, words[-1] or 0, key=lambda word: word or 0) if words else 0

        def is_space(id: int) -> bool:
            return not self._token_bytes[id].strip(b" \n\t")

        if count and is_space(ids[-count]):
            while count < len(ids) and is_space(ids[-count - 1]):
                count += 1
        return ids[: len(ids) - count], self.decode_bytes(ids[len(ids) - count :])

    def _starting_with(self, begin: bytes) -> Iterable[bytes]:
        tokens = self._sorted_tokens
        for at in range(bisect_left(tokens, begin), len(tokens)):
            if not tokens[at].startswith(begin):
                return
            yield tokens[at]

    def _retokenized(self, part: bytes) -> list[int]:
        try:
            return self.encode_ordinary(part.decode())
        except UnicodeDecodeError:
            return self._merged(part)

    def _covering(self, ids: list[int], length: int) -> Iterable[int]:
        """The first ids, up to those that have this number of bytes."""
        for id in ids:
            if length <= 0:
                return
            length -= len(self._token_bytes[id])
            yield id

    def _merged(self, piece: bytes) -> list[int]:
        """The ids of a piece: its bytes are merged, the lowest rank first, and the leftmost of equal ones."""
        ranks, end = self._mergeable_ranks, len(piece)
        if not piece or piece in ranks:
            return [ranks[piece]] if piece else []
        # Each part has its end, which is the start of the next, and the start of the one before. A part that was merged ends at 0.
        ends, before = [*range(1, end + 1)], [*range(-1, end)]
        heap = [(ranks[pair], at, at + 2) for at in range(end - 1) if (pair := piece[at : at + 2]) in ranks]
        heapify(heap)
        while heap:
            _, at, stop = heappop(heap)
            middle = ends[at]
            if not at < middle < stop or ends[middle] != stop:
                continue
            ends[at], ends[middle], before[stop] = stop, 0, at
            for begin in (before[at], at):
                after = ends[ends[begin]] if 0 <= begin and ends[begin] < end else 0
                if after and (rank := ranks.get(piece[begin:after])) is not None:
                    heappush(heap, (rank, begin, after))
        return [ranks[piece[at:stop]] for at, stop in enumerate(ends) if stop]


def _restored(name: str, pattern: str, ranks: dict[bytes, int], special: dict[str, int]) -> Encoding:
    return Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)


def _last_character(part: bytes) -> bytes:
    """The last character, if it is whole."""
    for length in range(1, min(4, len(part)) + 1):
        try:
            if len(part[-length:].decode()) == 1:
                return part[-length:]
        except UnicodeDecodeError:
            pass
    return b""


def _compiled(tokens: frozenset[str]) -> tuple[str, re.Pattern[str]]:
    """The common prefix of all tokens, and a pattern for one of them, the longest first."""
    longest_first = sorted(tokens, key=len, reverse=True)
    return os.path.commonprefix(longest_first), re.compile(f"({'|'.join(map(re.escape, longest_first))})")


_pattern = functools.lru_cache(maxsize=128)(_compiled)


def _search(tokens: frozenset[str], text: str) -> re.Match[str] | None:
    begin, pattern = _pattern(tokens)
    return pattern.search(text) if begin in text else None


def _after_special(text: str, allowed: frozenset[str]) -> str:
    return _pattern(allowed)[1].split(text)[-1] if allowed else text


def _letters() -> dict[int, int]:
    """The byte that each letter of the byte-level alphabet stands for."""
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in own]
    return dict(zip(own, own)) | {256 + number: byte for number, byte in enumerate(others)}


def _ranks(tokenizer: Tokenizer) -> dict[bytes, int]:
    letters = _letters()
    spelled = tokenizer.get_vocab(with_added_tokens=False)
    return {token.translate(letters).encode("latin-1"): id for token, id in sorted(spelled.items(), key=lambda item: item[1])}


def _loaded(name: str) -> Tokenizer:
    """The tokenizer of a vocabulary, without special tokens in texts."""
    if name != "p50k_base":
        return Tokenizer._of(name, True)
    # The tokens of `r50k_base`, and runs of 2 to 25 spaces.
    known = _of_ranks(_ranks(_vocabulary("r50k_base")) | {b" " * length: 50255 + length for length in range(2, 26)})
    assert known, "p50k_base is read by its ranks"
    return known


_vocabulary = functools.cache(_loaded)


def _of_ranks(ranks: dict[bytes, int]) -> Tokenizer | None:
    """The published vocabulary with these ranks."""
    lines = (b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in ranks.items())
    try:
        tokenizer = Tokenizer.from_buffer(b"".join(lines))
    except ValueError:
        return None
    tokenizer.encode_special_tokens = True
    return tokenizer


def _file(pattern: str, ranks: dict[bytes, int]) -> str:
    """A ``tokenizer.json`` for these ranks: each way to put a token together is a merge, as in transformers' conversion."""
    letters = {byte: chr(letter) for letter, byte in _letters().items()}
    spelled = {token: "".join(letters[byte] for byte in token) for token in ranks}
    merges: list[tuple[str, str]] = []
    for token in sorted(ranks, key=ranks.__getitem__):
        halves = [(token[:at], token[at:]) for at in range(1, len(token))]
        pairs = [pair for pair in halves if pair[0] in ranks and pair[1] in ranks]
        pairs.sort(key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))
        merges.extend((spelled[left], spelled[right]) for left, right in pairs)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Removed", "invert": True}
    vocabulary = {spelled[token]: rank for token, rank in ranks.items()}
    model = {"type": "BPE", "ignore_merges": True, "vocab": vocabulary, "merges": merges}
    pre_tokenizer = {"type": "Sequence", "pretokenizers": [split, byte_level]}
    return json.dumps({"version": "1.0", "pre_tokenizer": pre_tokenizer, "decoder": byte_level, "model": model})
