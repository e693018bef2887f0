"""`windrow.tiktoken`: the interface of tiktoken. Its own tests pass, too; the ids here are tiktoken's."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import windrow
from windrow import tiktoken

TEXT = "hello <|endoftext|> world"


@pytest.fixture(scope="module")
def gpt4() -> tiktoken.Encoding:
    return tiktoken.get_encoding("cl100k_base")


@pytest.mark.parametrize("name", tiktoken.list_encoding_names())
def test_the_names(name: str) -> None:
    encoding = tiktoken.get_encoding(name)
    assert encoding is tiktoken.get_encoding(name)
    assert (encoding.name, repr(encoding)) == (name, f"<Encoding {name!r}>")
    assert encoding.decode(encoding.encode("hello   world!\n")) == "hello   world!\n"
    assert pickle.loads(pickle.dumps(encoding)) is encoding
    for token in (0, 255, 300, 50255):
        assert encoding.encode_single_token(encoding.decode_single_token_bytes(token)) == token
    sizes = {"gpt2": 50257, "r50k_base": 50257, "p50k_base": 50281, "p50k_edit": 50284, "cl100k_base": 100277}
    assert encoding.n_vocab == sizes.get(name, {"o200k_base": 200019, "o200k_harmony": 201088}.get(name))


def test_the_models() -> None:
    assert tiktoken.encoding_name_for_model("gpt-4o-mini") == "o200k_base"
    assert tiktoken.encoding_for_model("text-davinci-003").encode("a    b") == [64, 50258, 275]
    assert tiktoken.encoding_for_model("gpt-oss-20b").encode("<|start|>", allowed_special="all") == [200006]
    with pytest.raises(KeyError, match="no-model"):
        tiktoken.encoding_for_model("no-model")
    with pytest.raises(ValueError, match="the known encodings are gpt2, r50k_base"):
        tiktoken.get_encoding("no-name")
    with pytest.raises(ValueError, match="Expected a string"):
        tiktoken.get_encoding(b"gpt2")  # type: ignore[arg-type]


def test_special_tokens(gpt4: tiktoken.Encoding) -> None:
    with pytest.raises(ValueError, match="disallowed special token '<|endoftext|>'".replace("|", r"\|")):
        gpt4.encode(TEXT)
    assert gpt4.encode(TEXT, allowed_special="all") == [15339, 220, 100257, 1917]
    assert gpt4.encode(TEXT, disallowed_special=()) == gpt4.encode_ordinary(TEXT)
    assert 100257 not in gpt4.encode_ordinary(TEXT)
    assert gpt4.encode_batch([TEXT, "hello"], allowed_special={"<|endoftext|>"}) == [[15339, 220, 100257, 1917], [15339]]
    with pytest.raises(ValueError, match="hello"):
        gpt4.encode("hello", disallowed_special={"hello"})
    assert gpt4.encode_to_numpy(TEXT, allowed_special="all").tolist() == [15339, 220, 100257, 1917]
    assert gpt4.encode_to_numpy("hello").dtype == np.uint32
    assert (gpt4.eot_token, gpt4.is_special_token(100257), gpt4.is_special_token(5)) == (100257, True, False)
    assert gpt4.special_tokens_set == {"<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|endofprompt|>"}


def test_batches(gpt4: tiktoken.Encoding) -> None:
    texts = ["hello world", "", "\ud83d\udc4d", "\ud83d"]
    assert gpt4.encode_batch(texts, num_threads=3) == [[15339, 1917], [], [9468, 239, 235], gpt4.encode("\ufffd")]
    assert gpt4.encode_ordinary_batch(texts) == gpt4.encode_batch(texts)
    ids = gpt4.encode_batch(texts[:3])
    assert gpt4.decode_batch(ids) == ["hello world", "", "\U0001f44d"]
    assert gpt4.decode_bytes_batch(ids) == [b"hello world", b"", "\U0001f44d".encode()]


def test_decoding(gpt4: tiktoken.Encoding) -> None:
    assert gpt4.decode([9468, 239]) == "\ufffd"
    assert gpt4.decode([9468, 239], errors="ignore") == ""
    with pytest.raises(UnicodeDecodeError):
        gpt4.decode([9468, 239], errors="strict")
    assert gpt4.decode_tokens_bytes([15339, 1917, 100257]) == [b"hello", b" world", b"<|endoftext|>"]
    assert gpt4.decode_with_offsets(gpt4.encode("h\u00e9llo world")) == ("h\u00e9llo world", [0, 1, 3, 5])
    for id in (100256, 100277, -1):
        with pytest.raises(KeyError):
            gpt4.decode_bytes([id])
    with pytest.raises(KeyError):
        gpt4.encode_single_token("no token")
    values = gpt4.token_byte_values()
    assert values == sorted(values) and len(values) == 100256 and values[0] == b"\0"


def test_bytes_and_unstable_ends(gpt4: tiktoken.Encoding) -> None:
    assert gpt4._encode_bytes(b" \xec\x8b\xa4\xed") == [62085]
    assert gpt4.decode_bytes(gpt4._encode_bytes(b"a\x80" * 50)) == b"a\x80" * 50
    assert tiktoken.get_encoding("gpt2")._encode_single_piece("helloqqqq") == [31373, 38227, 38227]
    text = "hello fanta"
    stable, completions = gpt4.encode_with_unstable(text)
    assert text.encode().startswith(gpt4.decode_bytes(stable)) and stable == [15339]
    assert len(completions) > 10
    assert all(gpt4.decode_bytes(stable + ids).startswith(text.encode()) for ids in completions)
    assert gpt4.encode_with_unstable("a<|endoftext|>", allowed_special="all") == ([64, 100257], [])


def test_an_encoding_of_ranks(gpt4: tiktoken.Encoding) -> None:
    def encoding(pattern: str, ranks: dict[bytes, int]) -> tiktoken.Encoding:
        return tiktoken.Encoding("mine", pat_str=pattern, mergeable_ranks=ranks, special_tokens={"<s>": 999_999})

    published = encoding(gpt4._pat_str, gpt4._mergeable_ranks)
    own = encoding(r"\w+", {bytes([byte]): byte for byte in range(256)} | {b"ab": 256, b"abc": 257})
    for made in (published, own):
        copied = pickle.loads(pickle.dumps(made))
        assert copied.encode("abc<s>", allowed_special="all") == made.encode("abc<s>", allowed_special="all")
        assert made.max_token_value == 999_999
    assert published.encode("hello world") == [15339, 1917]
    # What the pattern does not match is no piece, and a piece that is a token is one.
    assert own.encode("abc, ab!<s>", allowed_special="all") == [257, 256, 999_999]
    assert own._encode_single_piece("abcab") == [257, 256]


def test_threads_share_an_encoding() -> None:
    with ThreadPoolExecutor(8) as threads:
        found = [*threads.map(lambda _: tiktoken.get_encoding("p50k_base").encode("a   b"), range(64))]
    assert found == [[64, 50257, 275]] * 64


def test_it_is_a_part_of_the_package() -> None:
    assert windrow.tiktoken is tiktoken
