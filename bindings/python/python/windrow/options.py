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
    """Treat all files as text, regardless of their extensions; non-text files in directories are passed over."""

    append_eos: bool | None
    """Append the token that ends a document to every document; nanogpt always does."""

    bos: str | int | None
    """Begin every document with this token, given by name or id."""

    chat: str | os.PathLike[str] | None
    """Take the messages in JSON lines or Parquet as conversations, and render them with a chat template: the one next to the tokenizer.json, or a file."""

    chat_date: str | datetime.date | None
    """The day that a chat template sees as today."""

    dtype: Literal["u16", "u32", "i32"] | None
    """Type of the ids; by default, it follows from the size of the vocabulary."""

    eos: str | int | None
    """The token that ends a document, by name or id; known for the embedded vocabularies."""

    ext: str | Iterable[str] | None
    """Additional extensions of text, such as rs,py,c."""

    field: str | Iterable[str] | None
    """The field of a JSON line, or the column of a Parquet file, that holds the text; a.b is the field b in the object a. Several are joined [default: text; for conversations, messages]."""

    format: Literal["npy", "nanogpt", "megatron", "datatrove", "mds", "jsonl", "webdataset", "arrow", "arrow-stream", "parquet"] | None
    """Layout of the output. [default: npy]"""

    hidden: bool | None
    """Also read hidden files and folders in directories, such as .git and _temporary."""

    input_format: Literal["text", "lines", "jsonl", "parquet", "warc"] | None
    """Format of all inputs, regardless of their extensions. Without it, stdin is text. With jsonl, .json files in directories are read too."""

    join: str | None
    """Separator of the texts of several fields [default: a line break]."""

    keep: str | Iterable[str] | None
    """Fields or columns to carry along: in OUT.kept.jsonl, a line per document; as columns with arrow and parquet."""

    limit: int | None
    """Stop after the N-th good document; the rest is not read."""

    lines: bool | None
    """Treat every line of a text file as a document."""

    loss: Literal["all", "assistant"] | None
    """The tokens that count in training. With assistant, masks are written: OUT.mask.npy, OUT.ds.loss for datatrove, or a field or column named mask."""

    no_ignore: bool | None
    """Also read files in directories that .gitignore and similar files exclude. In a corpus they are always read."""

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
    """Seed for sample and the parts of split: another number chooses other documents [default: 0]."""

    shard_size: int | str | None
    """Divide the output into shards of about this size of token data, such as 1GiB: OUT-00000.bin, OUT-00001.bin and so on. Each is complete by itself, and no document is divided. The mds format always has shards, of 64MiB by default."""

    shuffle: int | None
    """Write the documents in another order, which depends on this number. They are spilled to the disk of OUT if they do not fit in memory."""

    special_in_text: bool | None
    """Recognize special tokens that are written in a text, such as <|endoftext|>. Without it they are plain text."""

    split: Mapping[str, float | str] | None
    """Divide the documents by a hash: with train=0.98,val=0.02 into OUT.train.bin and OUT.val.bin. The shares must add up to 1."""


class EncodeRunOptions(TypedDict, total=False):
    """Options of ``encode_files`` that do not change the output."""

    max_skipped: int | str | None
    """Maximum number of documents to skip, or a percentage of those read. If all are bad, the run always fails."""

    memory: int | str | None
    """Memory budget of the run, such as 512M; the tokenizer is not included. [default: 1G]"""

    overwrite: bool | None
    """Replace existing files, once the new ones are complete."""

    resume: bool | None
    """Continue after the last finished shard of an interrupted run with the same inputs and options, if there was one. Needs shard_size, except with mds."""

    threads: int | str | None
    """Number of threads that encode; auto: as many as affinity and quota allow [default: auto, or 1 if TOKENIZERS_PARALLELISM is false]."""

    trace: str | os.PathLike[str] | None
    """Write when each batch was in each stage, as a timeline for Perfetto or Chrome."""


class EncodeOptions(EncodeJobOptions, EncodeRunOptions, total=False):
    """The options of ``encode_files``."""


class CountOptions(TypedDict, total=False):
    """The options of ``count``."""

    all_text: bool | None
    """Treat all files as text, regardless of their extensions; non-text files in directories are passed over."""

    ext: str | Iterable[str] | None
    """Additional extensions of text, such as rs,py,c."""

    field: str | Iterable[str] | None
    """The field of a JSON line, or the column of a Parquet file, that holds the text; a.b is the field b in the object a. Several are joined [default: text; for conversations, messages]."""

    hidden: bool | None
    """Also read hidden files and folders in directories, such as .git and _temporary."""

    input_format: Literal["text", "lines", "jsonl", "parquet", "warc"] | None
    """Format of all inputs, regardless of their extensions. Without it, stdin is text. With jsonl, .json files in directories are read too."""

    join: str | None
    """Separator of the texts of several fields [default: a line break]."""

    lines: bool | None
    """Treat every line of a text file as a document."""

    memory: int | str | None
    """Memory budget of the run, such as 512M; the tokenizer is not included. [default: 1G]"""

    no_ignore: bool | None
    """Also read files in directories that .gitignore and similar files exclude. In a corpus they are always read."""

    raw: bool | None
    """Count the raw bytes of each file, as one text."""

    special_in_text: bool | None
    """Recognize special tokens that are written in a text, such as <|endoftext|>. Without it they are plain text."""

    threads: int | str | None
    """Number of threads that count; auto: as many as affinity and quota allow. [default: auto]"""

    top: int | None
    """Print the N files with the most tokens, and the total of all files."""
