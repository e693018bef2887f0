"""Shards, and a run that continues another one."""

import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import windrow


@pytest.fixture
def corpus(tmp_path: pathlib.Path) -> pathlib.Path:
    file = tmp_path / "corpus.txt"
    file.write_text("".join(f"line {number} of the corpus <|endoftext|>\n" for number in range(20_000)))
    return file


def test_counts_by_input(corpus: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "other.txt").write_text("Hello world")
    inputs = [corpus, tmp_path / "other.txt"]
    summary = windrow.encode_files(inputs, tmp_path / "out", "gpt2", lines=True, append_eos=True, special_in_text=True)
    assert [pathlib.Path(file["name"]) for file in summary["inputs"]] == inputs
    assert summary["inputs"][1]["documents"] == 1 and summary["inputs"][1]["tokens"] == 3
    assert sum(file["tokens"] for file in summary["inputs"]) == summary["tokens"]
    assert (summary["special_tokens"], summary["eos"]) == (20_000, 50256)


def test_shards_hold_what_one_file_holds(corpus: pathlib.Path, tmp_path: pathlib.Path) -> None:
    windrow.encode_files(corpus, tmp_path / "one", "gpt2", lines=True)
    windrow.encode_files(corpus, tmp_path / "out", "gpt2", lines=True, shard_size="50K")
    shards = sorted(tmp_path.glob("out-*.ids.npy"))
    assert len(shards) > 3
    assert np.array_equal(np.concatenate([np.load(shard) for shard in shards]), np.load(tmp_path / "one.ids.npy"))


def test_a_killed_run_resumes(corpus: pathlib.Path, tmp_path: pathlib.Path) -> None:
    windrow.encode_files(corpus, tmp_path / "whole", "gpt2", lines=True, shard_size=20_000)
    code = (
        "import sys, windrow\n"
        "windrow.encode_files(sys.argv[1], sys.argv[2], 'gpt2', lines=True, shard_size=20_000, threads=1)"
    )
    command = [sys.executable, "-c", code, str(corpus), str(tmp_path / "out")]
    for _ in range(20):
        process = subprocess.Popen(command)
        while process.poll() is None and not list(tmp_path.glob("out-00001.*")):
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        if process.wait() != 0:
            break
        for file in tmp_path.glob("out*"):
            file.unlink()
    windrow.encode_files(corpus, tmp_path / "out", "gpt2", lines=True, shard_size=20_000, resume=True)
    names = [file.name.removeprefix("whole") for file in sorted(tmp_path.glob("whole-*"))]
    assert names == [file.name.removeprefix("out") for file in sorted(tmp_path.glob("out-*"))]
    for name in names:
        assert (tmp_path / f"out{name}").read_bytes() == (tmp_path / f"whole{name}").read_bytes()


def test_resume_needs_shards(corpus: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with pytest.raises(windrow.InputError, match="shard_size"):
        windrow.encode_files(corpus, tmp_path / "out", "gpt2", resume=True)
