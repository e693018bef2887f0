import os
import signal
from collections.abc import Callable

import pytest

import windrow

# A shell that starts the tests in the background has them ignore Ctrl-C, and so would the processes that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def cases(usual: int) -> int:
    """Cases of a test: ``usual``, and with ``WINDROW_CASES=N`` in the environment N times as many."""
    return usual * int(os.environ.get("WINDROW_CASES", "1"))


def once(attempt: Callable[[], object]) -> None:
    """Calls it until it raises no AssertionError, at most ten times: a busy machine misses a bar of time now and then."""
    for _ in range(9):
        try:
            attempt()
            return
        except AssertionError:
            pass
    attempt()


@pytest.fixture(scope="session")
def gpt2() -> windrow.Tokenizer:
    return windrow.Tokenizer.from_tiktoken("gpt2")
