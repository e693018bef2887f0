"""Calls of tasks, which end when their task is cancelled."""

import asyncio
import os
import signal
import socket
import statistics
import subprocess
import sys
import time

import pytest
from conftest import cases
from test_load import byte_level
from test_process import of_child

import windrow

LONG = ["The quick brown fox jumps over the lazy dog, 12345 times. " * 2000] * 3000
BATCHES = 8


async def cancelled(tasks: list[asyncio.Task[object]]) -> float:
    """Cancels tasks that are under way, and returns the seconds of CPU time that are spent in a later second: the first of five in which it is
    little, because on a busy machine the threads come to their next look at the tasks late. The batches would run for minutes."""
    begin = time.monotonic()
    await asyncio.sleep(0.3)
    # Calls that read their arguments leave the interpreter to the event loop too.
    assert time.monotonic() - begin < 5
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results), results
    await asyncio.sleep(0.2)
    for _ in range(5):
        used = time.process_time()
        await asyncio.sleep(1)
        spent = time.process_time() - used
        if spent < 0.5:
            break
    return spent


@pytest.mark.parametrize("call", ["async_encode_batch", "async_encode_batch_fast", "async_decode_batch", "async_encode_batch of pairs"])
def test_cancelled_batches_stop(gpt2: windrow.Tokenizer, call: str) -> None:
    name, _, pairs = call.partition(" ")
    inputs: object = LONG
    if name == "async_decode_batch":
        inputs = [list(range(1000)) * 200] * min(cases(50), 500)
    elif pairs:
        inputs = list(zip(LONG, LONG, strict=True))

    async def main() -> None:
        method = getattr(gpt2, name)
        spent = await cancelled([asyncio.create_task(method(inputs)) for _ in range(BATCHES)])
        assert spent < 0.5, spent
        begin = time.monotonic()
        assert (await gpt2.async_encode("Hello world " * 1000)).ids[:2] == [15496, 995]
        assert await gpt2.async_decode_batch([[15496]]) == ["Hello"]
        assert time.monotonic() - begin < 1

    asyncio.run(main())


def test_batches_leave_the_threads_of_asyncio_alone(gpt2: windrow.Tokenizer) -> None:
    async def main() -> None:
        tasks = [asyncio.create_task(gpt2.async_encode_batch(LONG)) for _ in range(BATCHES)]
        await asyncio.sleep(0.1)
        begin = time.monotonic()
        # It runs on one of them.
        await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80, type=socket.SOCK_STREAM)
        assert time.monotonic() - begin < 1
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())


def test_a_timeout_ends_a_batch(gpt2: windrow.Tokenizer) -> None:
    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(gpt2.async_encode_batch(LONG), 0.1)

    begin = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - begin < 1.5


def test_errors_reach_the_task(gpt2: windrow.Tokenizer) -> None:
    async def main() -> None:
        with pytest.raises(windrow.ItemError, match="item 1: has half"):
            await gpt2.async_encode_batch(["a", "\ud800"])
        with pytest.raises(windrow.ItemError, match="item 0: has half"):
            await gpt2.async_encode("\ud800")
        with pytest.raises(TypeError, match="item 0: expected a str"):
            await gpt2.async_encode(3)

    asyncio.run(main())


PROGRAM = """
import asyncio, sys, windrow
tokenizer = windrow.Tokenizer.from_tiktoken("gpt2")
texts = ["The quick brown fox jumps over the lazy dog, 12345 times. " * 2000] * 3000
async def main():
    tasks = [asyncio.create_task(tokenizer.async_encode_batch(texts)) for _ in range(8)]
    await asyncio.sleep(0.3)
    print("ready", flush=True)
    await asyncio.gather(*tasks)
try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def interrupted(tries: int) -> list[tuple[float, float]]:
    """Seconds from Ctrl-C to the end of ``asyncio.run`` with eight batches under way, and to that of the process."""
    waited = []
    for _ in range(tries):
        process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        answered = time.monotonic() - begin
        assert process.wait(30) == 0
        waited.append((answered, time.monotonic() - begin))
        process.stdout.close()
    return waited


def test_ctrl_c_ends_eight_batches() -> None:
    waited = interrupted(cases(3))
    # The usual is some hundredths of a second for both; machines that run tests have other work.
    for times in zip(*waited, strict=True):
        assert statistics.median(times) < 0.3, waited


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tasks_of_a_forked_process() -> None:
    tokenizer = windrow.Tokenizer.from_str(byte_level())

    def work() -> bytes:
        return repr([one.ids for one in asyncio.run(tokenizer.async_encode_batch(["ab", "c"]))]).encode()

    assert work() == b"[[256], [99]]"
    assert of_child(work) == b"[[256], [99]]"
