"""Measures service.py with a thousand clients, in one process and without sockets: `pip install starlette && python service_load.py`.

Each client pauses for a random time, sends a text, checks the ids, and pauses again. The clients need most of the CPU time, for both batchers.
The batchers take turns; each line is the median of the rounds.
"""

import argparse
import asyncio
import json
import random
import statistics
import time
from dataclasses import dataclass

from service import application
from starlette.types import ASGIApp, Message, Scope

import windrow

BATCHERS = ["windrow", "timer"]
WORDS = "the quick brown fox jumps over a lazy dog while 12345 naïve tokenizers wait for their batch; don't they?".split()


async def post(service: ASGIApp, path: str, body: bytes) -> tuple[int, bytes]:
    """The status and the body of the answer to a request."""
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    status, parts = 0, []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            parts.append(message.get("body", b""))

    await service(scope, receive, send)
    return status, b"".join(parts)


@dataclass
class Request:
    body: bytes
    answer: bytes


def requests(tokenizer: windrow.Tokenizer, count: int) -> list[Request]:
    """Texts of 1 to 400 words, and what their answers are."""
    chance = random.Random(1)
    texts = [" ".join(chance.choices(WORDS, k=chance.randint(1, 400))) for _ in range(count)]
    answers = tokenizer.encode_batch_ids(texts).tolist()
    compact = (",", ":")
    return [Request(json.dumps(text).encode(), json.dumps(ids, separators=compact).encode()) for text, ids in zip(texts, answers, strict=True)]


async def measure(batcher: str, tokenizer: windrow.Tokenizer, clients: int, pause: float, seconds: float) -> tuple[float, float, float]:
    """Requests a second, and the median and 99 % of their times in milliseconds."""
    service = application(batcher, tokenizer)
    asked = requests(tokenizer, 200)
    chance, times = random.Random(2), list[float]()

    async def client() -> None:
        while True:
            # Without a pause, others have their turn.
            await asyncio.sleep(chance.expovariate(1 / pause) if pause > 0 else 0)
            request = chance.choice(asked)
            begin = time.perf_counter()
            status, answer = await post(service, "/encode", request.body)
            times.append(time.perf_counter() - begin)
            if status != 200 or answer != request.answer:
                raise RuntimeError(f"status {status}: {answer[:100]!r}")

    async with service.router.lifespan_context(service):
        begin = time.perf_counter()
        running = [asyncio.ensure_future(client()) for _ in range(clients)]
        failed, _ = await asyncio.wait(running, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        # What is still under way is not counted.
        answered, took = sorted(times), time.perf_counter() - begin
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    for one in failed:
        one.result()
    return len(answered) / took, answered[len(answered) // 2] * 1e3, answered[len(answered) * 99 // 100] * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=1000, help="%(default)s")
    parser.add_argument("--pauses", default="1,0.5,0", help="mean seconds between two requests of a client (%(default)s)")
    parser.add_argument("--seconds", type=float, default=4, help="of a turn (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each batcher (%(default)s)")
    options = parser.parse_args()
    tokenizer = windrow.Tokenizer.from_tiktoken("gpt2")
    print("batcher,clients,pause_s,requests_per_second,p50_ms,p99_ms")
    for pause in map(float, options.pauses.split(",")):
        found: dict[str, list[tuple[float, float, float]]] = {batcher: [] for batcher in BATCHERS}
        for _ in range(options.rounds):
            for batcher in BATCHERS:
                found[batcher].append(asyncio.run(measure(batcher, tokenizer, options.clients, pause, options.seconds)))
        for batcher, rows in found.items():
            rate, middle, late = (statistics.median(row[column] for row in rows) for column in range(3))
            print(f"{batcher},{options.clients},{pause:g},{rate:.0f},{middle:.2f},{late:.2f}", flush=True)


if __name__ == "__main__":
    main()
