"""Batches of ids: what goes in, what comes out, what fails."""

import copy
import doctest
import gc
import pickle
import struct
import sys
import threading

import pytest

import windrow
from windrow.tables import EncodeColumn

TEXTS = ["Hello world", "", "Hello", "naïve 中文 🙂", "a" * 20_000]


@pytest.fixture(scope="session")
def expected(gpt2: windrow.Tokenizer) -> list[list[int]]:
    return [gpt2.encode_batch_ids([text]).tolist()[0] for text in TEXTS]


def test_known_ids(gpt2: windrow.Tokenizer) -> None:
    assert gpt2.encode_batch_ids(["Hello world<|endoftext|>"]).tolist() == [[15496, 995, 50256]]
    assert gpt2.get_vocab_size() == 50257
    assert gpt2.token_to_id("\u0120the") == 262
    assert gpt2.delegated is None
    assert "windrow-bpe" in gpt2.explain()


def test_columns(gpt2: windrow.Tokenizer, expected: list[list[int]]) -> None:
    batch = gpt2.encode_batch_ids(TEXTS)
    assert len(batch) == len(TEXTS) == len(batch.offsets) - 1
    assert batch.values.tolist() == [id for ids in expected for id in ids]
    assert [ids.tolist() for ids in batch] == batch.tolist() == expected
    assert batch[-1] == batch[4] and list(batch[0]) == expected[0] and batch[0][-1] == 995
    assert (batch.values.dtype, batch.offsets.dtype) == ("uint32", "int64")
    assert batch.nbytes == 4 * len(batch.values) + 8 * len(batch.offsets)
    assert batch.values.tobytes() == b"".join(id.to_bytes(4, sys.byteorder) for id in batch.values)
    for index in (5, -6, 10**15):
        with pytest.raises(IndexError):
            batch[index]
    assert batch != gpt2.encode_batch_ids(TEXTS[:-1]) and batch != 3
    assert repr(batch).startswith(f"<windrow.Ragged of 5 items, {len(batch.values)} ids: [[15496, 995], [], ")


def test_nothing(gpt2: windrow.Tokenizer) -> None:
    empty = gpt2.encode_batch_ids([])
    assert (len(empty), empty.tolist(), empty.offsets.tolist()) == (0, [], [0])


@pytest.mark.parametrize(
    "make",
    [
        list,
        tuple,
        iter,
        lambda texts: (text for text in texts),
        lambda texts: [text.encode() for text in texts],
        lambda texts: dict.fromkeys(texts).keys(),
    ],
)
def test_inputs(gpt2: windrow.Tokenizer, expected: list[list[int]], make) -> None:  # type: ignore[no-untyped-def]
    assert gpt2.encode_batch_ids(make(TEXTS)).tolist() == expected


def test_numpy(gpt2: windrow.Tokenizer, expected: list[list[int]]) -> None:
    np = pytest.importorskip("numpy")
    batch = gpt2.encode_batch_ids(np.array(TEXTS))
    assert batch.tolist() == expected == gpt2.encode_batch_ids(np.array(TEXTS, dtype=object)).tolist()
    ids, offsets = np.asarray(batch.values), np.asarray(batch.offsets)
    assert (ids.dtype, offsets.dtype) == (np.uint32, np.int64)
    assert not ids.flags.writeable and ids.base is not None
    assert ids.__array_interface__["data"] == batch.values.__array_interface__["data"], "it was copied"
    first = np.asarray(batch[0])
    del batch
    assert ids[offsets[3] : offsets[4]].tolist() == expected[3] and first.tolist() == expected[0]


def test_arrow(gpt2: windrow.Tokenizer, expected: list[list[int]]) -> None:
    pa = pytest.importorskip("pyarrow")
    for type in (pa.string(), pa.large_string(), pa.string_view()):
        column = pa.array(TEXTS, type)
        assert gpt2.encode_batch_ids(column).tolist() == expected
        assert gpt2.encode_batch_ids(column[1:3]).tolist() == expected[1:3]
        assert gpt2.encode_batch_ids(pa.chunked_array([column[:2], column[2:]])).tolist() == expected
    batch = gpt2.encode_batch_ids(TEXTS)
    array = pa.array(batch)
    assert array.to_pylist() == expected
    assert array.flatten().buffers()[1].address == batch.values.__array_interface__["data"][0], "it was copied"
    assert pa.array(batch.offsets).to_pylist() == batch.offsets.tolist()
    # The conversion is ours: that of pyarrow 26.0.1 fails.
    assert pa.array(batch.offsets, pa.uint64()).to_pylist() == batch.offsets.tolist()
    assert pa.array(batch, pa.list_(pa.int64())).to_pylist() == expected
    assert pa.array(batch[3]).to_pylist() == expected[3]
    with pytest.raises(windrow.ItemError, match="^item 3: is null") as caught:
        gpt2.encode_batch_ids(pa.chunked_array([["a", "b"], ["c", None]]))
    assert caught.value.item == 3
    with pytest.raises(TypeError, match="expected a column of strings, not of Int64"):
        gpt2.encode_batch_ids(pa.array([1]))


def bad_columns() -> dict[str, tuple[object, int, str]]:
    """Columns that Arrow makes without a look at their bytes, the first bad item, and what is wrong with it."""
    pa = pytest.importorskip("pyarrow")

    def column(type: object, offsets: list[int], data: bytes) -> object:
        width = "i" if type == pa.string() else "q"
        buffers = [None, pa.py_buffer(struct.pack(f"{len(offsets)}{width}", *offsets)), pa.py_buffer(data)]
        return pa.Array.from_buffers(type, len(offsets) - 1, buffers)

    def views(*views: bytes) -> object:
        return pa.Array.from_buffers(pa.string_view(), len(views), [None, pa.py_buffer(b"".join(views)), pa.py_buffer(b"b" * 20 + b"\xff")])

    inline = struct.pack("i12s", 2, b"ok")
    text = "is not UTF-8 at byte "
    found: dict[str, tuple[object, int, str]] = {
        "bytes": (column(pa.string(), [0, 2, 5], b"ok\xff\xfe!"), 1, f"{text}0"),
        "large": (column(pa.large_string(), [0, 2, 5], b"oka\xfe!"), 1, f"{text}1"),
        "half of a character": (column(pa.string(), [0, 1, 2], "é".encode()), 0, f"{text}0"),
        "surrogate": (column(pa.string(), [0, 3], b"\xed\xa0\x80"), 0, f"{text}0"),
        "order": (column(pa.string(), [0, 4, 2, 5], b"okabc"), 1, "has invalid offsets 4 and 2"),
        "large order": (column(pa.large_string(), [0, 4, 2, 5], b"okabc"), 1, "has invalid offsets 4 and 2"),
        "beyond": (column(pa.string(), [0, 90, 5], b"okabc"), 0, "has invalid offsets 0 and 90 (column size in bytes: 5)"),
        "inline": (views(inline, struct.pack("i12s", 3, b"a\xff\xfe")), 1, f"{text}1"),
        "view": (views(inline, struct.pack("i4sii", 13, b"bbbb", 0, 8)), 1, f"{text}12"),
        "later chunk": (pa.chunked_array([pa.array(["a", "b"]), column(pa.string(), [0, 1], b"\xff")]), 2, f"{text}0"),
    }
    for name, view in {"outside": (21, b"bbbb", 0, 1), "no buffer": (20, b"bbbb", 7, 0), "negative": (13, b"bbbb", 0, -1)}.items():
        try:
            found[name] = (views(inline, struct.pack("i4sii", *view)), 1, "is a view that points outside the buffers")
        except pa.ArrowInvalid:
            pass  # This version looks itself.
    return found


@pytest.mark.parametrize("name", bad_columns())
def test_columns_that_are_not_what_they_claim(gpt2: windrow.Tokenizer, name: str) -> None:
    column, item, says = bad_columns()[name]
    with pytest.raises(windrow.ItemError) as caught:
        gpt2.encode_batch_ids(column)
    assert caught.value.item == item and str(caught.value).startswith(f"item {item}: {says}"), caught.value
    table = pytest.importorskip("pyarrow").table({"text": column})
    with pytest.raises(windrow.ItemError, match=f"^item {item}: "):
        EncodeColumn(gpt2)(table)


def test_slices_of_bad_columns(gpt2: windrow.Tokenizer) -> None:
    column, item, _ = bad_columns()["bytes"]
    assert item == 1
    assert gpt2.encode_batch_ids(column[:1]).tolist() == gpt2.encode_batch_ids(["ok"]).tolist()  # type: ignore[index]
    assert gpt2.encode_batch_ids(column[:0]).tolist() == []  # type: ignore[index]


def test_copies(gpt2: windrow.Tokenizer) -> None:
    batch = gpt2.encode_batch_ids(TEXTS)
    for other in (pickle.loads(pickle.dumps(batch)), copy.copy(batch), copy.deepcopy(batch)):
        assert other == batch
    with pytest.raises(ValueError, match="damaged"):
        windrow.Ragged._restore(b"\0" * 8, b"\0" * 7)


def test_bad_items(gpt2: windrow.Tokenizer) -> None:
    with pytest.raises(windrow.ItemError) as caught:
        gpt2.encode_batch_ids(["ok", "bad \ud800"])
    assert str(caught.value).startswith("item 1: has half of a surrogate pair at character 4, which UTF-8 cannot represent")
    assert caught.value.item == 1 and isinstance(caught.value.__cause__, UnicodeEncodeError)
    with pytest.raises(windrow.ItemError, match="^item 2: is not UTF-8 at byte 1 "):
        gpt2.encode_batch_ids([b"ok", "ok", b"a\xff"])
    with pytest.raises(TypeError, match="^item 1: expected str or bytes, not int$"):
        gpt2.encode_batch_ids(["a", 1])
    for single in ("text", b"text"):
        with pytest.raises(TypeError, match="put it in a list"):
            gpt2.encode_batch_ids(single)
    with pytest.raises(TypeError):
        gpt2.encode_batch_ids(None)
    assert issubclass(windrow.ItemError, (ValueError, windrow.WindrowError))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.item, str(again)) == (1, str(caught.value))


def test_decode(gpt2: windrow.Tokenizer) -> None:
    batch = gpt2.encode_batch_ids(TEXTS)
    assert gpt2.decode_batch(batch) == gpt2.decode_batch(batch.tolist()) == TEXTS
    assert gpt2.decode(batch[0]) == gpt2.decode([15496, 995]) == gpt2.decode((15496, 995, 50256)) == "Hello world"
    assert gpt2.decode([995, 50256], skip_special_tokens=False) == " world<|endoftext|>"
    with pytest.raises(windrow.ItemError, match="^item 1: .*60000"):
        gpt2.decode_batch([[1], [60000]])
    for bad in ([995, -1], [995, 2**32], [995, 10**5000]):
        with pytest.raises(ValueError, match=r"^ids\[1\] is .*, but must be from 0 to 4294967295$"):
            gpt2.decode(bad)
    with pytest.raises(TypeError, match=r"^ids\[0\] must be an int, not str$"):
        gpt2.decode(["a"])


def test_threads_share_a_tokenizer(gpt2: windrow.Tokenizer, expected: list[list[int]]) -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(50):
            if gpt2.encode_batch_ids(TEXTS).tolist() != expected:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_documentation() -> None:
    failed, tried = doctest.testmod(windrow)
    assert failed == 0 and tried > 0


@pytest.mark.parametrize("enabled", [True, False])
def test_lists_leave_the_collector_as_it_was(gpt2: windrow.Tokenizer, enabled: bool) -> None:
    batch = gpt2.encode_batch_ids(["a b"] * 5000)
    (gc.enable if enabled else gc.disable)()
    try:
        before = gc.get_stats()[0]["collections"]
        lists = batch.tolist()
        # One is due when they are made.
        assert gc.get_stats()[0]["collections"] <= before + 1 and len(lists) == 5000
        assert gc.isenabled() == enabled
    finally:
        gc.enable()
