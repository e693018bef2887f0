"""The options of ``encode_files`` and ``count``, written from the types of Rust by a test: tests/it/front_ends.rs."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Mapping
from typing import Literal, TypedDict

__all__ = ["CountOptions", "EncodeJobOptions", "EncodeOptions", "EncodeRunOptions"]


class EncodeJobOptions(TypedDict, total=False):
    """Options of ``encode_files`` that decide the output."""

    add_special_tokens: bool | None
    """Add the tokens that the template of a tokenizer.json puts around a document, such as BERT's CLS and SEP."""

    all_text: bool | None
    """Treat all files as text, regardless of their extensions; non-text files in directories are ignored."""

    append_eos: bool | None
    """Append the token that ends a document to every document; nanogpt always does."""

    bos: str | int | None
    """Begin every document with this token, given by name or id."""

    chat: str | os.PathLike[str] | None
    """Treat the messages in JSON lines or Parquet as conversations, and render them with a chat template: the one next to the tokenizer.json, or a file."""

    chat_date: str | datetime.date | None
    """The date that a chat template uses as today's date."""

    dtype: Literal["u16", "u32", "i32"] | None
    """Type of the ids; by default, it follows from the size of the vocabulary."""

    eos: str | int | None
    """The token that ends a document, by name or id; the embedded vocabularies have a default."""

    ext: str | Iterable[str] | None
    """Additional extensions of text files, such as rs,py,c."""

    field: str | Iterable[str] | None
    """The field of a JSON line, or the column of a Parquet file, that holds the text; a.b is field b of object a. Several fields are joined [default: text; for conversations, messages]."""

    format: Literal["npy", "nanogpt", "megatron", "datatrove", "mds", "jsonl", "webdataset", "arrow", "arrow-stream", "parquet"] | None
    """Layout of the output. [default: npy]"""

    hidden: bool | None
    """Also read hidden files and folders in directories, such as .git and _temporary."""

    input_format: Literal["text", "lines", "jsonl", "parquet", "warc"] | None
    """Format of all inputs, regardless of their extensions. Without this option, stdin is read as text. With jsonl, .json files in directories are also read."""

    join: str | None
    """Separator of the texts of several fields [default: a line break]."""

    keep: str | Iterable[str] | None
    """Fields or columns to keep: in OUT.kept.jsonl, one line per document, or as columns with arrow and parquet."""

    limit: int | None
    """Stop after the N-th good document; the rest is not read."""

    lines: bool | None
    """Treat every line of a text file as a document."""

    loss: Literal["all", "assistant"] | None
    """The tokens that contribute to the training loss. With assistant, masks are written: OUT.mask.npy, OUT.ds.loss for datatrove, or a field or column named mask."""

    no_ignore: bool | None
    """Also read files in directories that .gitignore and similar files exclude. In a corpus, such files are always read."""

    on_error: Literal["fail", "skip"] | None
    """What to do with a bad document: end the run, or skip it and list it in OUT.skipped.jsonl. [default: fail]"""

    pack: int | None
    """Pack the documents, one after the other, into rows of N ids for models with a fixed context; OUT.cu_seqlens.npy and OUT.docs.npy record where the documents are."""

    pack_mode: Literal["split", "whole"] | None
    """How documents become rows: cut at the end of a row, or whole, unless longer than a row. [default: split]"""

    pad: str | int | None
    """The token that fills incomplete rows, by name or id. Without it, the incomplete row at the end is dropped."""

    sample: float | str | None
    """Encode a share of the documents, such as 0.01 or 1%, chosen by a hash of the seed, the input and the document's number in it."""

    seed: int | None
    """Seed for sample and the parts of split: a different number chooses different documents [default: 0]."""

    shard_size: int | str | None
    """Divide the output into shards of about this size of token data, such as 1GiB: OUT-00000.bin, OUT-00001.bin and so on. Each shard is complete in itself, and no document is divided. The mds format always uses shards, of 64MiB by default."""

    shuffle: int | None
    """Shuffle the documents, with this number as the seed. They are spilled to the disk of OUT if they do not fit in memory."""

    special_in_text: bool | None
    """Recognize special tokens that appear in a text, such as <|endoftext|>. Without this option, they are plain text."""

    split: Mapping[str, float | str] | None
    """Divide the documents by a hash: with train=0.98,val=0.02 into OUT.train.bin and OUT.val.bin. The shares must add up to 1."""


class EncodeRunOptions(TypedDict, total=False):
    """Options of ``encode_files`` that do not change the output."""

    max_skipped: int | str | None
    """Maximum number of documents to skip, or a percentage of those read. If all documents are bad, the run always fails."""

    memory: int | str | None
    """Memory budget of the run, such as 512M; the tokenizer is not included. [default: 1G]"""

    overwrite: bool | None
    """Replace existing files, once the new ones are complete."""

    resume: bool | None
    """Continue an interrupted run with the same inputs and options after its last finished shard, if it finished one. Needs shard_size, except with mds."""

    threads: int | str | None
    """Number of threads that encode; auto: as many as CPU affinity and quota allow [default: auto, or 1 if TOKENIZERS_PARALLELISM is false]."""

    trace: str | os.PathLike[str] | None
    """Write a timeline for Perfetto or Chrome that shows when each batch was in each stage."""


class EncodeOptions(EncodeJobOptions, EncodeRunOptions, total=False):
    """The options of ``encode_files``."""


class CountOptions(TypedDict, total=False):
    """The options of ``count``."""

    all_text: bool | None
    """Treat all files as text, regardless of their extensions; non-text files in directories are ignored."""

    ext: str | Iterable[str] | None
    """Additional extensions of text files, such as rs,py,c."""

    field: str | Iterable[str] | None
    """The field of a JSON line, or the column of a Parquet file, that holds the text; a.b is field b of object a. Several fields are joined [default: text; for conversations, messages]."""

    hidden: bool | None
    """Also read hidden files and folders in directories, such as .git and _temporary."""

    input_format: Literal["text", "lines", "jsonl", "parquet", "warc"] | None
    """Format of all inputs, regardless of their extensions. Without this option, stdin is read as text. With jsonl, .json files in directories are also read."""

    join: str | None
    """Separator of the texts of several fields [default: a line break]."""

    lines: bool | None
    """Treat every line of a text file as a document."""

    memory: int | str | None
    """Memory budget of the run, such as 512M; the tokenizer is not included. [default: 1G]"""

    no_ignore: bool | None
    """Also read files in directories that .gitignore and similar files exclude. In a corpus, such files are always read."""

    raw: bool | None
    """Count the raw bytes of each file, as one text."""

    special_in_text: bool | None
    """Recognize special tokens that appear in a text, such as <|endoftext|>. Without this option, they are plain text."""

    threads: int | str | None
    """Number of threads that count; auto: as many as CPU affinity and quota allow. [default: auto]"""

    top: int | None
    """Print the N files with the most tokens, and the total of all files."""
