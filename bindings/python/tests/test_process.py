"""Processes: Ctrl-C, forks, the command."""

import contextlib
import hashlib
import json
import multiprocessing
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from conftest import cases
from test_load import byte_level

import windrow

LONG = "The quick brown fox jumps over the lazy dog, 12345 times. " * 2000


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C raises an exception, also if these tests run in the background of a shell, which ignores it there."""
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, usual)


def test_ctrl_c_ends_a_batch(gpt2: windrow.Tokenizer, interruptible: None) -> None:
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


def of_child(work: Callable[[], bytes]) -> bytes:
    """What a forked child returns, or nothing if it hangs."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, work())
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


@contextlib.contextmanager
def repeated(work: Callable[[], object], busy: bool) -> Iterator[None]:
    """Another thread works all the time, if it is `busy`."""
    begun, ends = threading.Event(), threading.Event()

    def loop() -> None:
        while not ends.is_set():
            work()
            begun.set()

    thread = threading.Thread(target=loop)
    if busy:
        thread.start()
        assert begun.wait(60)
    try:
        yield
    finally:
        ends.set()
        if busy:
            thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("busy", [False, True])
def test_a_forked_child_encodes(gpt2: windrow.Tokenizer, busy: bool) -> None:
    texts = [LONG] * 20

    def work() -> bytes:
        return gpt2.encode_batch_ids(texts).values.tobytes()[-8:]

    expected = work()
    with repeated(work, busy):
        for _ in range(cases(3)):
            assert of_child(work) == expected


def fields(encodings: list[windrow.Encoding]) -> bytes:
    """A hash of the fields that are there at once, and of those that are made at the first read."""
    found = [(one.offsets, one.tokens, one.ids, one.attention_mask, one.word_ids) for one in encodings]
    return hashlib.sha256(repr(found).encode()).digest()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_a_forked_child_makes_encodings(padded: bool, busy: bool) -> None:
    tokenizer = windrow.Tokenizer.from_str(byte_level(special=True))
    if padded:
        tokenizer.enable_truncation(300, stride=10)
        tokenizer.enable_padding(pad_to_multiple_of=64)
    texts = [LONG[:size] for size in (0, 5, 500, 5000)] * 10

    def work() -> bytes:
        return fields(tokenizer.encode_batch(texts))

    expected = work()
    # Their offsets are read after the fork for the first time.
    before = [tokenizer.encode_batch(texts) for _ in range(cases(2))]
    with repeated(work, busy):
        for encodings in before:
            assert of_child(work) == expected
            assert of_child(lambda encodings=encodings: fields(encodings)) == expected  # type: ignore[misc]
    assert [fields(encodings) for encodings in before] == [expected] * len(before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["words", "added", "decode", "offsets"])
def test_a_fork_while_another_thread_encodes_for_the_first_time(name: str) -> None:
    works: dict[str, Callable[[windrow.Tokenizer], bytes]] = {
        "words": lambda tokenizer: fields(tokenizer.encode_batch([["a", "word"]], is_pretokenized=True)),
        "added": lambda tokenizer: tokenizer.encode_batch_ids(["a word"], add_special_tokens=True).values.tobytes(),
        "decode": lambda tokenizer: tokenizer.decode([1, 2, 3]).encode(),
        "offsets": lambda tokenizer: fields(tokenizer.encode_batch(["a word"])),
    }
    work = works[name]
    unused = {f"unused {n}": 300 + n for n in range(min(cases(40_000), 100_000))}
    file = json.loads(byte_level(special=True))
    if name in ("words", "added"):
        file["model"]["vocab"] |= unused
    else:
        # What is no byte-level vocabulary needs the library for these.
        vocabulary = {"[UNK]": 0, "a": 1, "word": 2, "##s": 3} | unused
        words = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
        file |= {"pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": None, "added_tokens": []}
        file |= {"decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True}, "model": {**words, "vocab": vocabulary}}
    text = json.dumps(file)
    expected = work(windrow.Tokenizer.from_str(text))
    for pause in (0.0, 0.001, 0.01, 0.03):
        tokenizer = windrow.Tokenizer.from_str(text)
        # What the first call makes takes longer than the pause.
        thread = threading.Thread(target=work, args=(tokenizer,))
        thread.start()
        time.sleep(pause)
        found = of_child(lambda tokenizer=tokenizer: work(tokenizer))  # type: ignore[misc]
        thread.join()
        assert found == expected, pause


PARALLELISM = """
import os, resource, sys, windrow
tokenizer = windrow.Tokenizer.from_str(sys.stdin.read())
if sys.argv[1] == "padded":
    tokenizer.enable_padding(length=8)
texts = ["the quick brown fox " * 500] * 200
tasks = lambda: len(os.listdir("/proc/self/task"))
used = lambda whose: sum(resource.getrusage(whose)[:2])
before, others = tasks(), used(resource.RUSAGE_SELF) - used(resource.RUSAGE_THREAD)
if sys.argv[1] == "ids":
    ids = tokenizer.encode_batch_ids(texts)
    tokenizer.decode_batch(ids)
else:
    [encoding.offsets for encoding in tokenizer.encode_batch(texts)[: int(sys.argv[2])]]
print(before, tasks(), used(resource.RUSAGE_SELF) - used(resource.RUSAGE_THREAD) - others)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="there is no /proc")
@pytest.mark.parametrize("batch", ["ids", "encodings", "padded"])
def test_tokenizers_parallelism(batch: str) -> None:
    def run(**settings: str) -> tuple[int, int, float]:
        usual = {name: value for name, value in os.environ.items() if name not in ("TOKENIZERS_PARALLELISM", "WINDROW_THREADS")}
        command = [sys.executable, "-c", PARALLELISM, batch, str(cases(20))]
        done = subprocess.run(command, input=byte_level(), env=usual | settings, capture_output=True, text=True, check=True)
        before, after, others = done.stdout.split()
        return int(before), int(after), float(others)

    before, after, others = run(TOKENIZERS_PARALLELISM="false")
    assert (before, after) == (1, 1)
    assert others < 0.01, "another thread has worked"
    if len(os.sched_getaffinity(0)) > 1:
        for settings in ({}, {"TOKENIZERS_PARALLELISM": "true"}):
            before, after, _ = run(**settings)
            assert after > before, settings


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


SCRIPTS = [[str(pathlib.Path(sys.executable).with_name(name))] for name in ("windrow", "windrow-rs")]


@pytest.mark.parametrize("command", [[sys.executable, "-m", "windrow"], *SCRIPTS], ids=["module", "script", "distribution"])
def test_the_command(tmp_path: pathlib.Path, command: list[str]) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *words], cwd=tmp_path, capture_output=True, text=True, check=False)

    (tmp_path / "a.txt").write_text("Hello world")
    assert run("--version").stdout == f"windrow {windrow.__version__}\n"
    done = run("encode", "a.txt", "-o", "out", "--tokenizer", "gpt2")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.ids.npy").read_bytes()[-4:] == (15496).to_bytes(2, "little") + (995).to_bytes(2, "little")
    assert run("encode", "b.txt", "-o", "out2").returncode == 2
    done = run("encode")
    assert done.returncode == 2 and "Usage" in done.stderr
    (tmp_path / "large").mkdir()
    (tmp_path / "large/0.txt").write_text(LONG * 300)
    for number in range(1, 10):
        os.link(tmp_path / "large/0.txt", tmp_path / f"large/{number}.txt")
    process = subprocess.Popen([*command, "encode", "large", "-o", "out3", "--tokenizer", "gpt2"], cwd=tmp_path, stderr=subprocess.PIPE)
    # It has begun when it writes.
    while process.poll() is None and not list(tmp_path.glob("out3.ids*")):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) in (0, 130)


def test_other_interpreters_are_refused() -> None:
    code = (
        "import windrow\n"
        "try:\n    import _interpreters as interpreters\n"
        "except ImportError:\n    import _xxsubinterpreters as interpreters\n"
        "other = interpreters.create()\n"
        "try:\n    failed = interpreters.run_string(other, 'import windrow')\n"
        "except Exception as error:\n    failed = error\n"
        "interpreters.destroy(other)\n"
        "assert 'ImportError' in str(failed) and 'interpreter' in str(failed), failed\n"
        "assert windrow.Tokenizer.from_tiktoken('gpt2').encode_batch_ids(['a']).tolist() == [[64]]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
