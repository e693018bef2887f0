"""The commands as functions."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import windrow
from windrow.files import Progress

TEXTS = ["Hello world", "", "naïve café <|endoftext|>", "a b c " * 1000]


@pytest.fixture
def corpus(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number, text in enumerate(TEXTS):
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")
    return folder


def command(*words: object) -> str:
    words = (sys.executable, "-m", "windrow", *words)
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def published(prefix: pathlib.Path) -> dict[str, bytes]:
    """The bytes of all files but the manifest, which has a time."""
    files = prefix.parent.glob(f"{prefix.name}.*")
    return {file.name[len(prefix.name) :]: file.read_bytes() for file in files if "manifest" not in file.name}


def test_encode_files_does_what_the_command_does(corpus: pathlib.Path, tmp_path: pathlib.Path) -> None:
    summary = windrow.encode_files(corpus, tmp_path / "a", "gpt2")
    command("encode", corpus, "-o", tmp_path / "b", "--tokenizer", "gpt2")
    assert published(tmp_path / "a") == published(tmp_path / "b")
    assert summary["documents"] == {"read": 4, "written": 4, "skipped": 0, "failed": 0}
    ids = np.load(tmp_path / "a.ids.npy")
    assert summary["tokens"] == len(ids)
    gpt2 = windrow.Tokenizer.from_tiktoken("gpt2")
    gpt2.encode_special_tokens = True
    assert ids.tolist() == gpt2.encode_batch_ids(TEXTS).values.tolist()
    assert windrow.count(corpus, "gpt2")["total"]["tokens"] == summary["tokens"]


def test_options_reach_the_command(corpus: pathlib.Path, tmp_path: pathlib.Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"body": "Hello world"}\n{"body": 1}\n{"body": "Hello"}\n')
    summary = windrow.encode_files(
        [str(lines)],
        str(tmp_path / "a"),
        "gpt2",
        format="nanogpt",
        dtype="u16",
        eos=13,
        field="body",
        on_error="skip",
        max_skipped=1,
        threads=1,
        memory="64M",
    )
    assert summary["documents"]["skipped"] == 1
    (ids,) = [name for name in summary["outputs"] if name.endswith(".bin")]
    assert np.fromfile(ids, dtype=np.uint16).tolist() == [15496, 995, 13, 15496, 13]
    (corpus / "code.rs").write_text("fn main() {}")
    assert windrow.encode_files(corpus, tmp_path / "b", "gpt2", ext=["rs"])["documents"]["read"] == 5
    assert windrow.encode_files(corpus, tmp_path / "c", "gpt2", lines=True)["documents"]["read"] == 3
    with pytest.raises(FileExistsError, match=r"already exists\nhint: pass overwrite=True to replace it, or choose another prefix with output$"):
        windrow.encode_files(corpus, tmp_path / "c", "gpt2")
    assert windrow.encode_files(corpus, tmp_path / "c", "gpt2", overwrite=True)["documents"]["read"] == 4


def test_a_manifest_repeats_its_run(tmp_path: pathlib.Path) -> None:
    lines = tmp_path / "in.jsonl"
    lines.write_text('{"title": "Hello", "body": "world", "a,b": 1, "a": 2}\n' * 50)
    (tmp_path / "other").mkdir()

    def files(folder: pathlib.Path) -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in folder.glob("a.*")}

    windrow.encode_files(
        lines,
        tmp_path / "a",
        "gpt2",
        field=["title", "body"],
        keep=["a,b", "titel"],
        format="nanogpt",
        split={"train": 0.9, "val": "10%"},
        shuffle=1,
    )
    options = json.loads((tmp_path / "a.manifest.json").read_text())["options"]
    summary = windrow.encode_files(lines, tmp_path / "other" / "a", **options, threads=1)
    assert files(tmp_path / "other") == files(tmp_path)
    assert (tmp_path / "a.val.kept.jsonl").read_text().startswith('{"a,b":1,"titel":null}\n')
    missing = 'no document has the field "titel" named in keep, so all its values are null; the first document has "title"'
    assert summary["notes"].count(missing) == 1


def test_tokenizers(corpus: pathlib.Path, tmp_path: pathlib.Path) -> None:
    # A file does not name special tokens, whatever the tokenizer does with texts.
    gpt2 = windrow.Tokenizer.from_tiktoken("gpt2")
    for number, (tokenizer, encodes) in enumerate([("gpt2", False), (gpt2, False), (gpt2, True)]):
        gpt2.encode_special_tokens = encodes
        for special_in_text in (False, True):
            prefix = tmp_path / f"{number}{special_in_text}"
            summary = windrow.encode_files(corpus / "2.txt", prefix, tokenizer, special_in_text=special_in_text)
            assert summary["tokenizer"] == "r50k_base"
            ids = np.load(f"{prefix}.ids.npy").tolist()
            assert (50256 in ids) == special_in_text
            assert summary["special_tokens"] == special_in_text
            counts = windrow.count(corpus / "2.txt", tokenizer, special_in_text=special_in_text)
            assert counts["total"]["tokens"] == len(ids)
    with pytest.raises(windrow.TokenizerError, match="neither the name"):
        windrow.encode_files(corpus, tmp_path / "c", "no-such-vocabulary")


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda folder: windrow.encode_files(folder / "x.txt", folder / "o"), FileNotFoundError, "x.txt: no such file"),
        (lambda folder: windrow.encode_files(folder, folder / "no" / "o"), OSError, "mkdir -p"),
        (lambda folder: windrow.encode_files(folder, folder / "o"), windrow.InputError, "bad.txt:1:5: not valid UTF-8"),
        (lambda folder: windrow.encode_files([], folder / "o"), windrow.InputError, "inputs: no input given"),
        (lambda folder: windrow.encode_files(folder, folder / "o", threads=-1), windrow.InputError, "threads"),
        (lambda folder: windrow.count(folder), windrow.InputError, "bad.txt:1:5: not valid UTF-8"),
        (lambda folder: windrow.count(folder / "x.txt"), FileNotFoundError, "x.txt: no such file"),
        (lambda folder: windrow.count([]), windrow.InputError, "no input given"),
    ],
)
def test_errors(
    corpus: pathlib.Path, call: Callable[[pathlib.Path], object], error: type[Exception], says: str
) -> None:
    (corpus / "bad.txt").write_bytes(b"bad \xff")
    with pytest.raises(error, match=says):
        call(corpus)
    assert not list(corpus.glob("o*")), "nothing is published"


def test_count_reads_documents_as_encode_files_does(tmp_path: pathlib.Path) -> None:
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"text": "Hello world", "body": "Hello"}\n')

    def total(**options: Any) -> int:
        return windrow.count(lines, "gpt2", **options)["total"]["tokens"]

    assert (total(), total(field="body"), total(field=["text", "body"])) == (2, 1, 4)
    assert total(raw=True) == total(input_format="text") > 8


def test_count(corpus: pathlib.Path) -> None:
    (corpus / "bad.txt").write_bytes(b"bad \xff")
    (corpus / "zero").write_bytes(b"\0")
    counts = windrow.count([corpus], "gpt2", on_error="skip")
    assert counts["total"]["files"] == 4
    assert [file["tokens"] for file in counts["files"]][:2] == [2, 0]
    assert len(counts["errors"]) == 1 and len(counts["binary"]) == 1
    assert [file["path"][-5:] for file in windrow.count([corpus], top=1, on_error="skip")["files"]] == ["3.txt"]


def test_other_files_are_counted(corpus: pathlib.Path) -> None:
    (corpus / "bad.txt").write_bytes(b"bad \xff")
    paths = [corpus / "0.txt", corpus / "none.txt", corpus / "bad.txt", corpus / "3.txt"]
    with pytest.raises(FileNotFoundError, match="none.txt: no such file") as caught:
        windrow.count(paths, "gpt2")
    counts: windrow.files.Counts = caught.value.counts  # type: ignore[attr-defined]
    assert [pathlib.Path(file["path"]).name for file in counts["files"]] == ["0.txt", "3.txt"]
    assert counts["files"][0]["tokens"] == 2 and len(counts["errors"]) == 2
    assert windrow.count(paths, "gpt2", on_error="skip") == counts


def test_notes_of_the_command(corpus: pathlib.Path, tmp_path: pathlib.Path) -> None:
    named = "the texts contain special tokens"
    # The engine that looks for them works from some amount of text on.
    (corpus / "named.txt").write_text("<|endoftext|> in a text. " * 100_000)
    (corpus / "empty.jsonl").write_text("")
    notes = windrow.encode_files(corpus, tmp_path / "a", "gpt2")["notes"]
    assert f"{named}, which are treated as plain text (special_in_text=True recognizes them)" in notes
    assert any("contains no document" in note for note in notes)
    notes = windrow.encode_files(corpus, tmp_path / "b", "gpt2", special_in_text=True)["notes"]
    assert any(note.startswith(f"{named}: 100,001 ids") for note in notes)
    tokenizer = windrow.Tokenizer.from_tiktoken("gpt2")
    assert any(named in note for note in windrow.encode_files(corpus, tmp_path / "c", tokenizer)["notes"])
    # Not of texts that another run has seen.
    assert not any(named in note for note in windrow.encode_files(corpus / "0.txt", tmp_path / "d", tokenizer)["notes"])


def test_progress(corpus: pathlib.Path, tmp_path: pathlib.Path) -> None:
    seen: list[Progress] = []
    summary = windrow.encode_files(corpus, tmp_path / "a", "gpt2", progress=seen.append)
    stored = sum(len(text.encode()) for text in TEXTS)
    assert seen[-1] == Progress(stored, stored, 4, summary["bytes"], summary["tokens"])
    assert seen == sorted(seen)

    def fails(_: Progress) -> None:
        raise LookupError("from the callback")

    (corpus / "large.txt").write_text("word " * 10_000_000)
    with pytest.raises(LookupError, match="from the callback"):
        windrow.encode_files(corpus, tmp_path / "b", "gpt2", progress=fails)
    assert not list(tmp_path.glob("b*"))


def test_a_bar_needs_tqdm(corpus: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match="pip install tqdm"):
        windrow.encode_files(corpus, tmp_path / "a", "gpt2", progress=True)
    assert not list(tmp_path.glob("a*"))


def test_ctrl_c_ends_a_run_that_waits_for_its_input(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    # Without a writer, opening the pipe would wait.
    held = os.open(tmp_path / "pipe.txt", os.O_RDWR)
    threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        windrow.encode_files(tmp_path / "pipe.txt", tmp_path / "a", "gpt2")
    assert time.monotonic() - begin < 3
    assert not list(tmp_path.glob("a*"))
    os.close(held)


@pytest.mark.parametrize("call", ["encode_files", "count"])
def test_ctrl_c_ends_a_busy_run(tmp_path: pathlib.Path, call: str) -> None:
    (tmp_path / "large.txt").write_text("".join(f"word {number} " for number in range(100_000)) * 60)
    threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
    arguments = [tmp_path / "a"] if call == "encode_files" else []
    with pytest.raises(KeyboardInterrupt):
        for _ in range(100):
            getattr(windrow, call)(tmp_path / "large.txt", *arguments, "gpt2")
    assert call == "count" or not list(tmp_path.glob("*.tmp*"))
