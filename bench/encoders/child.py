"""Measures an encoder that is a Python wheel, as src/main.rs does: child.py ARM TOKENIZER CORPUS THREADS PASSES EVERY BATCH."""

import json
import pathlib
import statistics
import sys
import time
import zlib

import numpy

import corpora

LONG = 3_000_000_000
CALLS = 4000
TINY = ["x y", "hello", "1", "zz"]


# Python packages by what a program reads of a batch.
PACKAGES = {
    "windrow-py": ("windrow", "flat"),
    "windrow-py-lists": ("windrow", "lists"),
    "windrow-py-masks": ("windrow", "masks"),
    "windrow-py-offsets": ("windrow", "offsets"),
    "windrow-py-masks-each": ("windrow", "masks-each"),
    "windrow-py-offsets-each": ("windrow", "offsets-each"),
    "tokenizers-py-masks": ("tokenizers", "masks"),
    "tokenizers-py-offsets": ("tokenizers", "offsets"),
    "tokenizers-py-masks-each": ("tokenizers", "masks-each"),
    "tokenizers-py-offsets-each": ("tokenizers", "offsets-each"),
    "tokenizers-1.0-py": ("tokenizers", "masks"),
    "gigatoken-lists": ("gigatoken", "lists"),
    "fastokens-lists": ("fastokens", "lists"),
    "tiktoken-lists": ("tiktoken", "lists"),
    "fastokens-py": ("fastokens", "flat"),
}
READ = {"masks": ["ids", "attention_mask"], "offsets": ["ids", "attention_mask", "offsets"]}


def tiktoken(path):
    """GPT-2 by tiktoken, whose ranks are the ids of the file. It would download them."""
    import tiktoken
    import tiktoken_ext.openai_public as public

    letters = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in letters]
    bytes_of = {chr(byte): byte for byte in letters} | {chr(256 + n): byte for n, byte in enumerate(others)}
    vocabulary = json.loads(pathlib.Path(path).read_text())["model"]["vocab"]
    special = {"<|endoftext|>": vocabulary.pop("<|endoftext|>")}
    ranks = {bytes(bytes_of[letter] for letter in token): rank for token, rank in vocabulary.items()}
    return tiktoken.Encoding("gpt2", pat_str=public.r50k_pat_str, mergeable_ranks=ranks, special_tokens=special)


def load(arm, path):
    """Brings texts into the form that the encoder takes, encodes that, and lists the ids of each text."""
    if arm == "reference":
        import tokenizers

        tokenizer = tokenizers.Tokenizer.from_file(path)
        encode = lambda texts: tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return list, encode, lambda result: (numpy.array(it.ids, numpy.uint32) for it in result)

    if arm == "tiktoken-lists":
        encoding, threads = tiktoken(path), int(sys.argv[4])
        if threads == 1:
            # Its batches take a future for each text.
            return list, lambda texts: [encoding.encode(text, allowed_special="all") for text in texts], iter
        return list, lambda texts: encoding.encode_batch(texts, num_threads=threads, allowed_special="all"), iter

    if arm == "gigatoken-lists":
        import gigatoken

        return list, gigatoken.Tokenizer.from_json(pathlib.Path(path).read_bytes()).encode_batch_list, iter

    if arm in PACKAGES:
        package, kind = PACKAGES[arm]
        tokenizer = __import__(package).Tokenizer.from_file(path)
        if kind.endswith("-each"):
            # All are read, and the ids kept: what is read of an encoding does not live longer than it takes to read.
            names = READ[kind.removesuffix("-each")][1:]

            def encode(texts):
                ids = []
                for it in tokenizer.encode_batch(texts, add_special_tokens=False):
                    for name in names:
                        getattr(it, name)
                    ids.append(numpy.array(it.ids, numpy.uint32))
                return ids

            return list, encode, iter
        if kind in READ:
            names = READ[kind]
            read = lambda it: [getattr(it, name) for name in names]
            encode = lambda texts: [read(it) for it in tokenizer.encode_batch(texts, add_special_tokens=False)]
            return list, encode, lambda result: (numpy.array(it[0], numpy.uint32) for it in result)
        if (package, kind) == ("fastokens", "lists"):
            return list, lambda texts: [it.ids for it in tokenizer.encode_batch(texts, add_special_tokens=False)], iter
        if package == "fastokens":
            return list, lambda texts: tokenizer.encode_batch_flat(texts, add_special_tokens=False), flat_bytes
        if kind == "lists":
            return list, lambda texts: tokenizer.encode_batch_ids(texts, add_special_tokens=False).tolist(), iter
        return list, lambda texts: tokenizer.encode_batch_ids(texts, add_special_tokens=False), iter

    import gigatoken

    tokenizer = gigatoken.Tokenizer.from_json(pathlib.Path(path).read_bytes())
    if arm == "gigatoken-each":
        return list, lambda texts: [tokenizer.encode(text) for text in texts], iter
    if arm == "gigatoken-bytes":
        # No UTF-8 has this byte.
        prepare = lambda texts: gigatoken.BytesSource(b"\xff".join(text.encode() for text in texts), b"\xff")
        return prepare, tokenizer.encode_batch, flat
    return list, tokenizer.encode_batch, flat


def flat_bytes(result):
    ids, edges = numpy.frombuffer(result[0], "<u4"), numpy.frombuffer(result[1], "<u8")
    return (ids[a:b] for a, b in zip(edges, edges[1:]))


def flat(result):
    ids, edges = result.layout.content.data, result.layout.offsets.data
    return (ids[a:b] for a, b in zip(edges, edges[1:]))


def peak():
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def main():
    arm, path, corpus = sys.argv[1:4]
    _, passes, every, batch = map(int, sys.argv[4:])
    texts = [text.decode() for text in corpora.documents(pathlib.Path(corpus))[::every]]
    # To import it is no part of loading a tokenizer.
    if arm == "tokenizers-1.0-py":
        sys.path.insert(0, str(corpora.CACHE / "tokenizers-1.0"))
    __import__(arm.split("-")[0].replace("reference", "tokenizers"))
    start = time.perf_counter_ns()
    prepare, encode, each = load(arm, path)
    said = {"load_ns": time.perf_counter_ns() - start, "load_peak_kib": peak()}
    encode(prepare(TINY))

    def one(texts):
        ready = prepare(texts)
        start, cpu = time.perf_counter_ns(), time.process_time_ns()
        result = encode(ready)
        return result, time.perf_counter_ns() - start, time.process_time_ns() - cpu

    if batch:
        batches = [texts[k : k + batch] for k in range(0, len(texts) - batch + 1, batch)]
        calls = []
        while len(calls) < CALLS and sum(calls) < LONG:
            calls.append(one(batches[len(calls) % len(batches)])[1])
        said |= {"first_ns": calls[0], "calls": len(calls)}
        calls.sort()
        said |= {"p50_ns": calls[len(calls) // 2], "p99_ns": calls[len(calls) * 99 // 100]}
    else:
        pathlib.Path("/proc/self/clear_refs").write_text("5")
        result, cold, cold_cpu = one(texts)
        said |= {"cold_ns": cold, "cold_cpu_ns": cold_cpu, "peak_kib": peak()}
        ids = list(each(result))
        said["digests"] = "".join(f"{zlib.crc32(numpy.ascontiguousarray(it, '<u4').tobytes()):08x}" for it in ids)
        said |= {"tokens": sum(map(len, ids)), "bytes": sum(len(text.encode()) for text in texts)}
        del ids, result
        warm = []
        while len(warm) < passes and sum(time for time, _ in warm) < LONG:
            warm.append(one(texts)[1:])
        for name, times in zip(["warm_ns", "warm_cpu_ns"], zip(*warm)):
            said[name] = statistics.median_high(times)
    print(json.dumps(said))


if __name__ == "__main__":
    main()
