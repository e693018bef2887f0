"""Threads that share a tokenizer."""

import sys
import threading
import time
from collections.abc import Callable

import pytest
from conftest import cases
from test_load import byte_level

import windrow

TEXTS = ["Hello world", "", "na\u00efve \u4e2d\u6587 \U0001f642", "ab<s>ab", *(f"text {n} " * n for n in range(40)), "a b " * 5_000]
SECONDS = cases(5) / 10


@pytest.fixture(autouse=True)
def quick_switches() -> object:
    """Threads of Python take turns more often."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(usual)


def at_once(works: list[Callable[[], None]]) -> None:
    """Each on its own thread; all begin together, and what one of them raises is raised here."""
    barrier, errors = threading.Barrier(len(works)), []

    def run(work: Callable[[], None]) -> None:
        try:
            barrier.wait(60)
            work()
        except BaseException as error:  # A panic is one.
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    for error in errors:
        raise error


def results(tokenizer: windrow.Tokenizer) -> dict[str, Callable[[], object]]:
    """Calls of all kinds, whose results are values."""
    ids = tokenizer.encode_batch_ids(TEXTS).tolist()
    tokens = [tokenizer.id_to_token(id) or "" for id in range(0, 256, 7)]
    return {
        "encode": lambda: [tokenizer.encode(text).ids for text in TEXTS],
        "offsets": lambda: [encoding.offsets for encoding in tokenizer.encode_batch(TEXTS)],
        "encode_batch": lambda: [(one.ids, one.tokens, one.word_ids) for one in tokenizer.encode_batch(TEXTS)],
        "pairs": lambda: [one.offsets for one in tokenizer.encode_batch([(text, "ab") for text in TEXTS])],
        "encode_batch_ids": lambda: tokenizer.encode_batch_ids(TEXTS, add_special_tokens=True).tolist(),
        "decode": lambda: [tokenizer.decode(one) for one in ids],
        "decode_batch": lambda: tokenizer.decode_batch(ids, skip_special_tokens=False),
        "token_to_id": lambda: [tokenizer.token_to_id(token) for token in tokens],
    }


@pytest.mark.parametrize("padded", [False, True])
def test_eight_threads_use_one_tokenizer(padded: bool) -> None:
    expected = {name: call() for name, call in results(windrow.Tokenizer.from_str(byte_level(special=True))).items()}
    # No thread has used this one, so what it makes when it is first needed is made by several threads at once.
    tokenizer = windrow.Tokenizer.from_str(byte_level(special=True))
    if padded:
        tokenizer.enable_padding(length=30)
        tokenizer.enable_truncation(20)
        expected = {name: call() for name, call in results(tokenizer).items()}
    calls = list(results(tokenizer).items())

    def work(number: int) -> None:
        # A count, not a time: a busy machine may let one of the threads wait for long.
        for turn in range(number, number + cases(2) * len(calls)):
            name, call = calls[turn % len(calls)]
            assert call() == expected[name], name

    at_once([lambda number=number: work(number) for number in range(8)])  # type: ignore[misc]


def test_threads_read_new_encodings_together() -> None:
    tokenizer = windrow.Tokenizer.from_str(byte_level(special=True))
    expected = [encoding.offsets for encoding in tokenizer.encode_batch(TEXTS)]
    for _ in range(cases(5)):
        encodings = tokenizer.encode_batch(TEXTS)

        def work(encodings: list[windrow.Encoding] = encodings) -> None:
            assert [encoding.offsets for encoding in encodings] == expected

        at_once([work] * 8)


def test_changes_during_calls() -> None:
    tokenizer = windrow.Tokenizer.from_str(byte_level())
    plain = tokenizer.encode("ab tool").ids
    tokenizer.add_tokens(["tool"])
    added = tokenizer.encode("ab tool").ids
    assert added != plain
    padding = [[*ids, *[0] * (length - len(ids))] for ids in (added, [256]) for length in (0, 5, 9)]
    end = time.monotonic() + SECONDS

    def encodes() -> None:
        while time.monotonic() < end:
            for encoding in tokenizer.encode_batch(["ab tool", "ab"]):
                # Each call is with one setting or the other.
                assert encoding.ids in padding
                assert len(encoding.offsets) == len(encoding.ids)

    def pads() -> None:
        while time.monotonic() < end:
            tokenizer.enable_padding(length=5)
            tokenizer.enable_padding(length=9)
            tokenizer.no_padding()

    def adds() -> None:
        number = 0
        while number == 0 or time.monotonic() < end:
            assert tokenizer.add_tokens([f"<other {number}>"]) == 1
            number += 1
        assert all(tokenizer.token_to_id(f"<other {n}>") is not None for n in range(number))

    at_once([encodes, encodes, pads, adds])
    tokenizer.no_padding()
    assert tokenizer.encode("ab tool").ids == added


def test_threads_that_add_tokens_lose_none() -> None:
    tokenizer = windrow.Tokenizer.from_str(byte_level())
    size = tokenizer.get_vocab_size()
    names = [[f"<{number} {n}>" for n in range(10)] for number in range(4)]

    def adds(names: list[str]) -> None:
        for name in names:
            assert tokenizer.add_tokens([name]) == 1

    at_once([lambda names=names: adds(names) for names in names])  # type: ignore[misc]
    every = [name for some in names for name in some]
    assert [name for name in every if tokenizer.token_to_id(name) is None] == []
    assert sorted(tokenizer.encode_batch_ids(every).values) == list(range(size, size + len(every)))


def test_settings_of_threads_are_kept() -> None:
    """Padding, truncation and tokens are set at the same time."""

    def all_of_them(tokenizer: windrow.Tokenizer) -> None:
        at_once(
            [
                lambda: tokenizer.enable_padding(length=5),
                lambda: tokenizer.enable_truncation(7),
                lambda: setattr(tokenizer, "encode_special_tokens", True),
                lambda: print(tokenizer.add_tokens(["tool"])),
            ]
        )
        assert tokenizer.padding and tokenizer.padding["length"] == 5
        assert tokenizer.truncation and tokenizer.truncation["max_length"] == 7
        assert tokenizer.encode_special_tokens and tokenizer.token_to_id("tool") is not None

    for _ in range(cases(10)):
        all_of_them(windrow.Tokenizer.from_str(byte_level()))
