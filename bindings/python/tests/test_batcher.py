"""Calls that are run as batches."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import windrow


def double(items: list[int]) -> list[int]:
    return [2 * item for item in items]


def slow(items: list[int]) -> list[int]:
    time.sleep(0.01)
    return double(items)


def odd_ones_fail(items: list[int]) -> list[int | BaseException]:
    return [ValueError(f"{item} is odd") if item % 2 else item for item in items]


def test_threads() -> None:
    with windrow.Batcher(slow) as batcher, ThreadPoolExecutor(16) as pool:
        assert list(pool.map(batcher.call, range(200))) == double(list(range(200)))
        stats = batcher.stats()
    assert stats["items"] == 200
    assert stats["batches"] < 100
    assert sum(size * count for size, count in stats["sizes"].items()) == 200


def test_tasks() -> None:
    batcher = windrow.Batcher(slow)

    async def all_of_them() -> None:
        assert await batcher.submit(1) == 2
        assert await asyncio.gather(*map(batcher.submit, range(1000))) == double(list(range(1000)))

    for _ in range(3):
        asyncio.run(all_of_them())
    assert batcher.stats()["batches"] < 30


def test_a_batch_wakes_an_event_loop_once(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = items = rings = 0

    def counts(some: list[int]) -> list[int]:
        nonlocal batches, items
        results = slow(some)
        batches, items = batches + 1, items + len(some)
        return results

    async def all_of_them() -> None:
        loop = asyncio.get_running_loop()
        ring = loop.call_soon_threadsafe

        def counted(callback: Any, *arguments: Any, **settings: Any) -> asyncio.Handle:
            nonlocal rings
            rings += 1
            return ring(callback, *arguments, **settings)

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        for turn in range(20):
            before = batches, rings
            calls = [batcher.submit(n) for n in range(500)]
            # The loop is busy until the batches have ended.
            while items < 500 * (turn + 1):
                time.sleep(0.01)
            time.sleep(0.02)
            assert await asyncio.gather(*calls) == double(list(range(500)))
            assert 1 <= rings - before[1] <= batches - before[0]
        # A loop that is not busy may poll calls while a batch wakes others.
        before = batches, rings
        for _ in range(20):
            assert await asyncio.gather(*map(batcher.submit, range(500))) == double(list(range(500)))
        assert 20 <= batches - before[0] <= 200
        assert 20 <= rings - before[1] <= 20 * 500 / 10

    with windrow.Batcher(counts) as batcher:
        asyncio.run(all_of_them())


def test_limit_and_room() -> None:
    sizes = []

    def seen(items: list[int]) -> list[int]:
        sizes.append(len(items))
        return slow(items)

    async def all_of_them(batcher: windrow.Batcher[int, int]) -> None:
        assert await asyncio.gather(*map(batcher.submit, range(60))) == double(list(range(60)))

    asyncio.run(all_of_them(windrow.Batcher(seen, limit=8)))
    assert max(sizes) <= 8
    sizes.clear()
    asyncio.run(all_of_them(windrow.Batcher(seen, queue=5)))
    assert max(sizes) <= 5
    with windrow.Batcher(seen, queue=2) as batcher, ThreadPoolExecutor(8) as pool:
        assert list(pool.map(batcher.call, range(40))) == double(list(range(40)))


def test_exceptions_of_items_and_of_the_function() -> None:
    batcher = windrow.Batcher(odd_ones_fail)
    assert batcher.call(2) == 2
    with pytest.raises(ValueError, match="3 is odd"):
        batcher.call(3)

    async def mixed() -> None:
        results = await asyncio.gather(*map(batcher.submit, range(10)), return_exceptions=True)
        assert [str(result) for result in results] == [f"{n} is odd" if n % 2 else str(n) for n in range(10)]

    asyncio.run(mixed())

    def fails(items: list[int]) -> list[int]:
        raise KeyError("all")

    with pytest.raises(KeyError, match="all"):
        windrow.Batcher(fails).call(1)
    def forgets(items: list[int]) -> list[int]:
        return items[1:]

    with pytest.raises(ValueError, match="returned 0 results for 1 item"):
        windrow.Batcher(forgets).call(1)

    def stream(items: list[int]) -> Iterable[int]:
        yield from items

    assert windrow.Batcher(stream).call(1) == 1


def test_cancelled_items_are_taken_back() -> None:
    seen: list[int] = []
    gate = threading.Event()

    def waits(items: list[int]) -> list[int]:
        seen.extend(items)
        gate.wait(10)
        return items

    batcher = windrow.Batcher(waits)

    async def cancels() -> None:
        first = batcher.submit(0)
        while not seen:
            await asyncio.sleep(0.001)
        others = [batcher.submit(n) for n in range(1, 11)]
        for other in others[::2]:
            other.cancel()
        await asyncio.sleep(0)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(batcher.submit(99), 0.01)
        gate.set()
        assert await first == 0
        assert [await other for other in others[1::2]] == [2, 4, 6, 8, 10]

    asyncio.run(cancels())
    assert sorted(seen) == [0, 2, 4, 6, 8, 10]


def test_a_loop_that_has_ended() -> None:
    batcher = windrow.Batcher(slow)

    async def leaves() -> None:
        batcher.submit(1)

    for _ in range(3):
        asyncio.run(leaves())
    assert batcher.call(4) == 8


def test_close() -> None:
    batcher = windrow.Batcher(slow)
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(batcher.call, n) for n in range(4)]
        while batcher.stats()["items"] == 0:
            time.sleep(0.001)
        batcher.close()
        batcher.close()
        for future in waiting:
            assert future.exception() is None or "the structure is closed" in str(future.exception())
    with pytest.raises(RuntimeError, match="the structure is closed"):
        batcher.call(1)

    async def late() -> None:
        with pytest.raises(RuntimeError, match="the structure is closed"):
            await batcher.submit(1)

    asyncio.run(late())


def test_the_function_cannot_wait_for_itself() -> None:
    def again(items: list[int]) -> list[int]:
        return [batcher.call(item) for item in items]

    batcher: windrow.Batcher[int, int] = windrow.Batcher(again)
    with pytest.raises(RuntimeError, match="cannot wait for its own Batcher"):
        batcher.call(1)


def test_what_is_wrong_is_named() -> None:
    for wrong in ({"limit": 0}, {"queue": 0}):
        with pytest.raises(ValueError, match="is 0"):
            windrow.Batcher(double, **wrong)
    with pytest.raises(TypeError, match="function must be a callable that takes a list, not int"):
        windrow.Batcher(3)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="no running event loop"):
        windrow.Batcher(double).submit(1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_is_told() -> None:
    batcher = windrow.Batcher(double)
    assert batcher.call(1) == 2
    child = os.fork()
    if child == 0:
        try:
            batcher.call(1)
        except RuntimeError as error:
            os._exit(0 if "before this process was forked" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert batcher.call(2) == 4


def test_batchers_that_are_dropped_end_their_threads() -> None:
    before = threading_count()
    for _ in range(20):
        assert windrow.Batcher(double).call(1) == 2
    gc.collect()
    deadline = time.monotonic() + 10
    while threading_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading_count() <= before


def threading_count() -> int:
    task = "/proc/self/task"
    return len(os.listdir(task)) if os.path.exists(task) else 0


def test_interrupts_and_exits() -> None:
    code = (
        "import signal, threading, time, windrow\n"
        # In the background of a shell it is ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "batcher = windrow.Batcher(lambda items: time.sleep(1) or items)\n"
        "threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()\n"
        "begin = time.monotonic()\n"
        "try:\n    batcher.call(1)\n"
        "except KeyboardInterrupt:\n    print(time.monotonic() - begin)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert float(done.stdout) < 0.6


def test_a_process_ends_while_a_batch_runs() -> None:
    code = (
        "import threading, time, windrow\n"
        "batcher = windrow.Batcher(lambda items: time.sleep(0.3) or items)\n"
        "threading.Thread(target=lambda: batcher.call(1), daemon=True).start()\n"
        "time.sleep(0.1)\n"
    )
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=30, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
