"""Calls with too little memory end with an exception."""

import os
import re
import signal
import subprocess
import sys

import pytest
from conftest import cases
from test_load import byte_level

SWEEP = r"""
import os, pickle, resource, sys, traceback, windrow
MIB, times = 1 << 20, int(sys.argv[2])
tokenizer = windrow.Tokenizer.from_str(sys.stdin.read())
padded = windrow.Tokenizer.from_str(tokenizer.to_str())
padded.enable_padding()
words = windrow.Tokenizer.from_str(
    '{"model": {"type": "WordLevel", "vocab": {"one": 0, "?": 1}, "unk_token": "?"}, "pre_tokenizer": {"type": "Whitespace"}}'
)
texts = ["words of a path " * (n * 40 % 300) for n in range(100)] + ["a" * 2 * MIB, "words and more " * 30_000]
short = ["words " * 20] * 300 + ["words of a path " * min(times * 1000, 3000)]
ids = tokenizer.encode_batch_ids(texts)
# Each of its columns of numbers is larger than what may end the process; with WINDROW_CASES=3 each of bytes is, too.
long = "a" * min(times * MIB // 2, 2 * MIB)
large = tokenizer.encode_batch([long])[0]
read = lambda name: lambda: getattr(large, name)
calls = {
    "ids": lambda: tokenizer.encode_batch_ids(texts),
    "ids as lists": ids.tolist,
    "ids of a text": ids[100].tolist,
    "bytes": ids.values.tobytes,
    "copy": lambda: pickle.loads(pickle.dumps(ids)),
    "encodings": lambda: [one.ids for one in tokenizer.encode_batch(texts)],
    "padded": lambda: padded.encode_batch(short),
    "words": lambda: words.encode_batch(texts),
    "pairs": lambda: tokenizer.encode_batch([(text, text) for text in short]),
    "texts": lambda: tokenizer.decode_batch(ids),
    "text": lambda: tokenizer.decode(ids[100].tolist()),
    "merged": lambda: windrow.Encoding.merge([large, large]),
    "truncated": lambda: windrow.Encoding.merge([large]).truncate(1000),
    "places": lambda: large.byte_offsets(long),
    "pickled": lambda: pickle.loads(pickle.dumps(large)),
    **{
        name: read(name)
        for name in ("type_ids", "attention_mask", "special_tokens_mask", "tokens", "offsets", "word_ids", "sequence_ids")
    },
}
call = calls[sys.argv[1]]


def used():
    return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()


def child(more):
    limit = used() + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        call()
    except (MemoryError, windrow.WindrowError):
        os._exit(1)
    except BaseException:
        traceback.print_exc()
        os._exit(3)
    os._exit(0)


more, step, outcomes = MIB // 4, 0, []
while outcomes.count(0) < 2 and more < 8 << 30:
    pid = os.fork()
    if pid == 0:
        child(more)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    outcomes.append(code)
    if code not in (0, 1):
        print(more // MIB, "MiB:", code, file=sys.stderr)
    more += max(more // 4, 2 * MIB) * 2 // min(times, 2)
print(*outcomes)
"""

CALLS = (
    "ids, ids as lists, ids of a text, bytes, copy, encodings, padded, words, pairs, texts, text, merged, truncated, places, pickled, type_ids, "
    "attention_mask, special_tokens_mask, tokens, offsets, word_ids, sequence_ids"
).split(", ")


@pytest.mark.skipif(sys.platform != "linux", reason="there is no limit of memory")
@pytest.mark.parametrize("call", CALLS)
def test_too_little_memory(call: str) -> None:
    command = [sys.executable, "-c", SWEEP, call, str(cases(1))]
    # Freed memory goes back to the system, and none is reserved for each thread. A backtrace needs memory while it holds its lock, and waits for
    # itself where there is none.
    env = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1", "RUST_BACKTRACE": "0"}
    done = subprocess.run(command, env=env, input=byte_level(), capture_output=True, text=True, timeout=120, check=False)
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    outcomes = [int(code) for code in done.stdout.split()]
    assert outcomes.count(0) == 2 and 1 in outcomes
    # Not even a small allocation succeeds: the process ends at once, or PyO3 panics, and it says so. (127 is glibc's end.)
    assert set(outcomes) <= {0, 1, 3, 127, -signal.SIGABRT}
    assert outcomes.count(3) <= done.stderr.count("PanicException: PyObject pointer is null")
    assert outcomes.count(-signal.SIGABRT) <= done.stderr.count("memory allocation of ")
    # Two threads may print at the same time, and mix their digits.
    failed = [int(size) for size in re.findall(r"^memory allocation of (\d+) bytes failed$", done.stderr, re.MULTILINE)]
    assert all(size <= 1 << 20 for size in failed)
