"""Other threads run while large arguments are read, and while large results become objects of Python."""

import gc
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

import windrow

# Calls here take 50 ms and more, and a turn 10 ms. Machines that run tests have other work, so one of some tries has to be short.
LONGEST, TRIES = 0.6, 20

# Seconds. Shorter calls need not let others run.
SHORTEST = 0.02


@pytest.fixture(scope="module")
def text() -> str:
    return "".join(f"word {number} and more " for number in range(250_000))


@pytest.fixture(scope="module")
def batches(gpt2: windrow.Tokenizer, text: str) -> tuple[windrow.Ragged, windrow.Ragged, windrow.Ragged]:
    """One text, another batch of it, and its words."""
    return gpt2.encode_batch_ids([text]), gpt2.encode_batch_ids([text]), gpt2.encode_batch_ids(text.split())


@pytest.fixture
def pauses() -> Iterator[Callable[[Callable[[], object]], float]]:
    """A function that runs another one, and returns the longest time for which this process's other threads did not run, as a share of its time."""

    def longest(call: Callable[[], object]) -> float:
        ends, seen = threading.Event(), [0.0]

        def watch() -> None:
            last = time.perf_counter()
            while not ends.is_set():
                time.sleep(0.001)
                now = time.perf_counter()
                seen[0], last = max(seen[0], now - last), now

        thread = threading.Thread(target=watch)
        thread.start()
        time.sleep(0.05)
        begin = time.perf_counter()
        kept = call()
        took = time.perf_counter() - begin
        ends.set()
        thread.join()
        assert kept is not None
        return seen[0] / took if took > SHORTEST else 0.0

    yield longest


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other clocks")
@pytest.mark.parametrize(
    "name",
    ["tolist", "many lists", "iteration", "values", "pickle", "equal", "decode_batch"]
    + ["ids", "type_ids", "special_tokens_mask", "offsets", "tokens", "word_ids"],
)
def test_other_threads_run(
    gpt2: windrow.Tokenizer,
    text: str,
    batches: tuple[windrow.Ragged, windrow.Ragged, windrow.Ragged],
    pauses: Callable[[Callable[[], object]], float],
    name: str,
) -> None:
    whole, again, parts = batches
    assert len(whole.values) > 900_000 and len(parts) > 900_000
    calls: dict[str, Callable[[], object]] = {
        "tolist": whole.tolist,
        "many lists": parts.tolist,
        "iteration": lambda: list(parts),
        "values": whole.values.tolist,
        "pickle": lambda: pickle.loads(pickle.dumps(whole)),
        "equal": lambda: whole == again,
        # It takes longer to read these lists than to decode them.
        "decode_batch": lambda: gpt2.decode_batch([[5]] * 200_000),
    }
    if name not in calls:
        # A new one for each: the first read of a field may make others.
        encoding = gpt2.encode(text)
        calls[name] = lambda: getattr(encoding, name)
    call = calls[name]
    # CPython's collector stops all threads while it visits a million containers, in any program.
    if name in ("many lists", "iteration"):
        gc.disable()
    try:
        waits: list[float] = []
        while len(waits) < TRIES and not any(wait < LONGEST for wait in waits):
            waits.append(pauses(call))
    finally:
        gc.enable()
    assert min(waits) < LONGEST, waits
