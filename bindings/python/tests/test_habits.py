"""Habits that people bring from other packages of Python."""

import asyncio
import copy
import inspect
import pathlib
import weakref

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pytest
import tokenizers
from test_load import byte_level

import windrow
import windrow.files
import windrow.overlap
import windrow.products
import windrow.tables
import windrow.tiktoken


def test_dir_has_all_names() -> None:
    assert set(windrow.__all__) <= set(dir(windrow))
    assert not {"TYPE_CHECKING", "annotations"} & set(dir(windrow))
    for name in dir(windrow):
        getattr(windrow, name)


def test_each_public_name_has_a_docstring() -> None:
    def members(thing: type) -> list[str]:
        found = [(name, inspect.getattr_static(thing, name)) for name in vars(thing) if not name.startswith("_")]
        return [name for name, member in found if hasattr(member, "__get__") and not inspect.getdoc(member)]

    missing = []
    for module in (windrow, windrow.tiktoken, windrow.files, windrow.tables, windrow.overlap, windrow.products):
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.ismodule(thing) or inspect.isclass(thing) or inspect.isroutine(thing):
                place = f"{module.__name__}.{name}"
                missing += [] if inspect.getdoc(thing) else [place]
                # The members of exceptions are those of Python.
                if inspect.isclass(thing) and not issubclass(thing, Exception):
                    missing += [f"{place}.{member}" for member in members(thing)]
    assert missing == []


def test_a_batch_is_sliced_and_shown(gpt2: windrow.Tokenizer) -> None:
    batch = gpt2.encode_batch_ids(["Hello world", "", "Hello", "a b c"])
    lists = batch.tolist()
    for piece in (slice(1, 3), slice(None), slice(None, None, -1), slice(0, 4, 2), slice(3, 1), slice(-1, None)):
        assert batch[piece] == lists[piece]
        assert batch[piece].offsets[0] == 0
    assert repr(batch[:3]) == "<windrow.Ragged of 3 items, 3 ids: [[15496, 995], [], [15496]]>"
    assert repr(batch[0]) == "<windrow.Column of 2 uint32: [15496, 995]>"
    long = gpt2.encode_batch_ids(["a " * 100])
    assert repr(long[0]).endswith(", 257, 257, ...]>") and len(repr(long)) < 200
    assert repr(gpt2.encode("Hello world")) == "<windrow.Encoding of 2 tokens, 0 overflowing: [15496, 995]>"
    for column in (batch.values, batch.offsets, batch[3]):
        numbers = column.tolist()
        for piece in (slice(1, 3), slice(None, None, -2), slice(5, 2), slice(-2, None)):
            assert column[piece] == numbers[piece]
            assert np.asarray(column[piece]).tolist() == numbers[piece]
    assert batch[0] == [15496, 995] and batch[0] != [15496] and batch != [[1]]
    with pytest.raises(TypeError):
        batch["0"]  # type: ignore[call-overload]
    with pytest.raises(IndexError):
        batch[4]


def test_a_batch_as_arrays(gpt2: windrow.Tokenizer) -> None:
    batch = gpt2.encode_batch_ids(["Hello world", "", "Hello"])
    assert [row.tolist() for row in batch.to_numpy()] == batch.tolist()
    assert batch.to_numpy(pad_id=7).tolist() == [[15496, 995], [7, 7], [15496, 7]]
    assert batch.to_numpy(pad_id=7).dtype == np.uint32
    assert batch.to_arrow().to_pylist() == batch.tolist()
    assert batch[0].to_arrow() == pa.array([15496, 995], pa.uint32())
    assert batch.offsets.to_numpy().tolist() == [0, 2, 2, 3]
    with pytest.raises(TypeError, match="to_numpy"):
        np.asarray(batch)
    empty = gpt2.encode_batch_ids([])
    assert (empty.to_numpy(), empty.to_numpy(pad_id=0).shape, empty[:]) == ([], (0, 0), empty)


def test_tokenizers_are_equal_by_what_they_are(gpt2: windrow.Tokenizer, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(byte_level())
    one, other = windrow.Tokenizer.from_file(file), windrow.Tokenizer.from_str(byte_level())
    assert one == other and hash(one) == hash(other) and one != gpt2 and one != "one"
    assert copy.copy(gpt2) == gpt2 and windrow.Tokenizer.from_tiktoken("gpt2") == gpt2
    other.enable_truncation(4)
    assert one != other
    other.no_truncation()
    assert one == other
    other.encode_special_tokens = True
    assert one != other
    assert weakref.ref(one)() is one


def words() -> windrow.Tokenizer:
    """One word a token, with special tokens around."""
    library = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"[PAD]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "b": 4, "c": 5, "?": 6}, unk_token="?")
    )
    library.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    library.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return windrow.Tokenizer(library)


@pytest.mark.parametrize("kind", ["words", "gpt2"])
def test_truncation_and_padding_of_a_call(kind: str, gpt2: windrow.Tokenizer) -> None:
    tokenizer = words() if kind == "words" else copy.copy(gpt2)
    if kind == "gpt2":
        tokenizer.enable_padding(pad_id=50256, pad_token="<|endoftext|>")
        tokenizer.no_padding()
    texts = ["a b c a b", "a", "", "a b c"]
    for direction in ("right", "left"):
        for max_length in (None, 2, 3, 5, 100):
            for padding in (None, False, True, 6, "max_length"):
                if padding == "max_length" and max_length is None:
                    continue
                pads = {"pad_id": 0, "pad_token": "[PAD]", "direction": direction}
                set_before = copy.copy(tokenizer)
                if max_length is not None:
                    set_before.enable_truncation(max_length, direction=direction)
                if padding not in (None, False):
                    length = {True: None, "max_length": max_length}.get(padding, padding)
                    set_before.enable_padding(length=None if padding is True else length, **pads)  # type: ignore[arg-type]
                for one in (tokenizer, set_before):
                    call = copy.copy(one)
                    if one is tokenizer:
                        call.enable_truncation(50, direction=direction)
                        call.enable_padding(**pads)  # type: ignore[arg-type]
                        if padding is None:
                            call.no_padding()
                        if max_length is None:
                            call.no_truncation()
                    found = call.encode_batch(texts, max_length=max_length, padding=padding)
                    assert [encoding.ids for encoding in found] == [e.ids for e in set_before.encode_batch(texts)]
                    assert [encoding.offsets for encoding in found] == [e.offsets for e in set_before.encode_batch(texts)]
                    ids = call.encode_batch_ids(texts, max_length=max_length, padding=padding)
                    if max_length is not None and (padding is not None or one is tokenizer):
                        assert ids == [encoding.ids for encoding in found]
                single = call.encode(texts[0], max_length=max_length)
                assert single.ids[:2] == set_before.encode(texts[0]).ids[:2]


def test_bad_arguments_of_a_call(gpt2: windrow.Tokenizer) -> None:
    with pytest.raises(ValueError, match="no padding token\nhint: set one with enable_padding"):
        gpt2.encode("a", padding=True)
    with pytest.raises(ValueError, match='padding "max_length" needs'):
        words().encode("a", padding="max_length")
    with pytest.raises(ValueError, match='padding "short" is not "longest"'):
        gpt2.encode_batch(["a"], padding="short")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="padding must be"):
        gpt2.encode_batch(["a"], padding=1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_length is -1"):
        gpt2.encode_batch_ids(["a"], max_length=-1)
    with pytest.raises(ValueError, match='errors must be "strict" or "replace", not "ignore"'):
        gpt2.encode("a", errors="ignore")  # type: ignore[arg-type]
    for call in (words().encode_batch_ids, words().encode_batch):
        with pytest.raises(ValueError, match="too small for 2 special tokens|less than the number of special tokens, 2"):
            call(["a"], max_length=1)
    with pytest.raises(windrow.InputError, match="not enough memory for the padded ids"):
        words().encode_batch_ids(["a"], padding=1 << 60)


def test_what_is_no_unicode(gpt2: windrow.Tokenizer) -> None:
    for text, same in (("a\ud83d", "a\ufffd"), ("\ud83d\udc4d", "\U0001f44d"), (b"a\xff", "a\ufffd")):
        with pytest.raises(windrow.ItemError):
            gpt2.encode_batch_ids([text])
        assert gpt2.encode_batch_ids([text], errors="replace") == gpt2.encode_batch_ids([same])
        if isinstance(text, str):
            replaced = gpt2.encode(text, errors="replace")
            assert replaced.ids == gpt2.encode_batch([text], errors="replace")[0].ids == gpt2.encode(same).ids
            assert replaced.byte_offsets(text)[-1][1] == len(same.encode())
            assert asyncio.run(gpt2.async_encode(text, errors="replace")) == replaced
            assert asyncio.run(gpt2.async_encode_batch([text], errors="replace")) == [replaced]


def test_offsets_as_arrays(gpt2: windrow.Tokenizer) -> None:
    for text in ("Hello w\u00f6rld", "", "a" * 10_000):
        for encoding in (gpt2.encode(text), words().encode(text), gpt2.encode(text, "pair")):
            assert encoding.offsets_array.dtype == np.int64
            assert encoding.offsets_array.tolist() == [list(pair) for pair in encoding.offsets]
        encoding = gpt2.encode(text)
        assert encoding.byte_offsets_array(text).tolist() == [list(pair) for pair in encoding.byte_offsets(text)]


def test_short_texts_of_tasks_take_no_thread(gpt2: windrow.Tokenizer) -> None:
    import threading

    async def threads() -> int:
        before = threading.active_count()
        await asyncio.gather(*(gpt2.async_encode("Hello world", max_length=2) for _ in range(100)))
        return threading.active_count() - before

    assert asyncio.run(threads()) == 0


def test_added_tokens_are_those_of_the_library() -> None:
    token = windrow.AddedToken("<m>")
    token.content, token.special = "<M>", True
    assert (str(token), token.normalized) == ("<M>", False)
    assert token == tokenizers.AddedToken("<M>", special=True) and token != tokenizers.AddedToken("<M>", lstrip=True)
    assert repr(windrow.AddedToken("<m>", rstrip=True)) == repr(tokenizers.AddedToken("<m>", rstrip=True))
    assert windrow.AddedToken() == windrow.AddedToken("") and token != "<M>"
    tokenizer, token = words(), windrow.AddedToken("new")
    assert tokenizer.add_special_tokens([token, windrow.AddedToken()]) == 1
    assert token.special and not token.normalized
    assert tokenizer.get_added_tokens_decoder()[7] == tokenizers.AddedToken("new", special=True)


def test_a_tokenizer_is_put_together() -> None:
    tokenizer = windrow.Tokenizer(tokenizers.models.BPE())
    assert tokenizer.get_vocab() == {} and tokenizer.encode("a").ids == []
    assert tokenizer.normalizer is None and tokenizer.decoder is None
    tokenizer.post_processor = tokenizers.processors.BertProcessing(("]", 1), ("[", 0))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.normalizer = tokenizers.normalizers.Lowercase()
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, special_tokens=["[", "]"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(["hello world"] * 3, trainer)
    library = tokenizers.Tokenizer.from_str(tokenizer.to_str())
    assert tokenizer.encode("Hello hell").ids == library.encode("Hello hell").ids
    assert tokenizer.encode("Hello hell").ids[0] == 0
    for name in ("model", "normalizer", "pre_tokenizer", "post_processor", "decoder"):
        assert type(getattr(tokenizer, name)) is type(getattr(library, name))
    tokenizer.normalizer = None
    assert tokenizer.normalizer is None and tokenizer.encode("HELLO").ids[:2] == [0, tokenizer.token_to_id("H")]
    with pytest.raises(TypeError, match="expected a component of the tokenizers library, not str"):
        tokenizer.normalizer = "Lowercase"
    first, second = (tokenizer.encode(text, add_special_tokens=False) for text in ("hello", "world"))
    assert tokenizer.post_process(first, second).ids == tokenizer.encode("hello", "world").ids


def test_transformers(tmp_path: pathlib.Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = words()
    settings = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "?"}
    reference = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer.from_str(tokenizer.to_str()), **settings
    )
    given = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **settings)
    for made in (given, tokenizer.as_hf(**settings), tokenizer.as_hf(like=reference)):
        assert type(made.backend_tokenizer) is windrow.Tokenizer
        for arguments in (
            {"text": "a b c"},
            {"text": ["a b c a", "b"], "padding": True, "truncation": True, "max_length": 4},
            {"text": "a b", "text_pair": "c", "return_offsets_mapping": True},
            {"text": "a b c a b", "truncation": True, "max_length": 4, "stride": 1, "return_overflowing_tokens": True},
        ):
            assert dict(made(**arguments)) == dict(reference(**arguments))
        assert made.decode([1, 3, 4, 2], skip_special_tokens=True) == reference.decode([1, 3, 4, 2], skip_special_tokens=True)
        assert made.tokenize("a b") == ["a", "b"] and made.convert_tokens_to_ids(["a", "no"]) == [3, 6]
        assert made("a b").word_ids() == [None, 0, 1, None] and len(made) == 7
        made.save_pretrained(tmp_path)
        again = transformers.AutoTokenizer.from_pretrained(tmp_path)
        assert again("a b c").input_ids == made("a b c").input_ids
        assert made.add_tokens(["new"]) == 1 and made("a new").input_ids == [1, 3, 7, 2]
