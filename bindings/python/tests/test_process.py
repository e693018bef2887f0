"""Processes: Ctrl-C, forks, the command."""

import multiprocessing
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import threading
import time

import pytest

import windrow

LONG = "The quick brown fox jumps over the lazy dog, 12345 times. " * 2000


def test_ctrl_c_ends_a_batch(gpt2: windrow.Tokenizer) -> None:
    texts = [LONG] * 20_000
    waited = []
    for _ in range(5):
        sent = []

        def send() -> None:
            time.sleep(0.2)
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=send)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            gpt2.encode_batch_ids(texts)
        waited.append(time.monotonic() - sent[0])
        thread.join()
    assert statistics.median(waited) < 0.2, waited
    assert gpt2.encode_batch_ids(["Hello"]).tolist() == [[15496]]


def ids_of_child(gpt2: windrow.Tokenizer, texts: list[str]) -> bytes:
    """What a forked child makes of the texts, or nothing if it hangs."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, gpt2.encode_batch_ids(texts).values.tobytes()[-8:])
        finally:
            os._exit(0)
    os.close(write)
    for _ in range(1000):
        if os.waitpid(child, os.WNOHANG)[0] == child:
            break
        time.sleep(0.01)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    with os.fdopen(read, "rb") as file:
        return file.read()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("busy", [False, True])
def test_a_forked_child_encodes(gpt2: windrow.Tokenizer, busy: bool) -> None:
    texts = [LONG] * 20
    expected = gpt2.encode_batch_ids(texts).values.tobytes()[-8:]
    ends = threading.Event()

    def work() -> None:
        while not ends.is_set():
            gpt2.encode_batch_ids(texts)

    thread = threading.Thread(target=work)
    if busy:
        thread.start()
    try:
        for _ in range(10):
            assert ids_of_child(gpt2, texts) == expected
    finally:
        ends.set()
        if busy:
            thread.join()


def encode(texts: list[str]) -> windrow.Ragged:
    return windrow.Tokenizer.from_tiktoken("gpt2").encode_batch_ids(texts)


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_multiprocessing(gpt2: windrow.Tokenizer, method: str) -> None:
    expected = gpt2.encode_batch_ids([LONG, "b"])
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(encode, [[LONG, "b"]] * 4) == [expected] * 4


def test_interpreter_exit() -> None:
    code = (
        "import threading, windrow; t = windrow.Tokenizer.from_tiktoken('gpt2');"
        "threading.Thread(target=lambda: t.encode_batch_ids(['a b c ' * 1000] * 20000), daemon=True).start();"
        "t.encode_batch_ids(['x' * 1000] * 100)"
    )
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


def test_import_is_quick() -> None:
    code = "import sys, time; a = time.perf_counter(); import windrow; print(time.perf_counter() - a); assert 'numpy' not in sys.modules"
    times = [float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout) for _ in range(5)]
    assert min(times) < 0.03, times


COMMANDS = [[sys.executable, "-m", "windrow"], [str(pathlib.Path(sys.executable).with_name("windrow"))]]


@pytest.mark.parametrize("command", COMMANDS, ids=["module", "script"])
def test_the_command(tmp_path: pathlib.Path, command: list[str]) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *words], cwd=tmp_path, capture_output=True, text=True, check=False)

    (tmp_path / "a.txt").write_text("Hello world")
    assert run("--version").stdout == f"windrow {windrow.__version__}\n"
    done = run("encode", "a.txt", "-o", "out", "--tokenizer", "gpt2")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.ids.npy").read_bytes()[-4:] == (15496).to_bytes(2, "little") + (995).to_bytes(2, "little")
    assert run("encode", "b.txt", "-o", "out2").returncode == 2
    assert run("encode").returncode == 2 and "Usage" in run("encode").stderr
    (tmp_path / "large.txt").write_text(LONG * 3000)
    process = subprocess.Popen([*command, "encode", "large.txt", "-o", "out3"], cwd=tmp_path, stderr=subprocess.PIPE)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) in (0, 130)
