"""An HTTP service that tokenizes: `pip install starlette uvicorn && uvicorn service:app`.

`POST /encode` with a text as JSON returns its ids as JSON. Requests that come while a batch runs are the next batch: see `windrow.Batcher`.

With `SERVICE_BATCHER=timer`, the service has a batcher that people write by hand, which waits 5 ms for more requests. service_load.py
measures both.
"""

import asyncio
import contextlib
import functools
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import windrow

LIMIT = 256
WAIT = 0.005

Ids = list[int]


class Calls(Protocol):
    """Calls that are run as batches."""

    def submit(self, text: bytes, /) -> Awaitable[Ids]: ...
    def close(self) -> None: ...


class Timer:
    """Runs a function with the calls that come within 5 ms."""

    def __init__(self, function: Callable[[list[bytes]], list[Ids]], limit: int) -> None:
        self.function, self.limit = function, limit
        self.thread = ThreadPoolExecutor(1)
        self.texts: list[bytes] = []
        self.futures: list[asyncio.Future[Ids]] = []
        self.timer: asyncio.TimerHandle | None = None

    def submit(self, text: bytes, /) -> asyncio.Future[Ids]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Ids] = loop.create_future()
        self.texts.append(text)
        self.futures.append(future)
        if len(self.texts) == self.limit:
            self.flush()
        elif self.timer is None:
            self.timer = loop.call_later(WAIT, self.flush)
        return future

    def flush(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        texts, futures = self.texts, self.futures
        self.timer, self.texts, self.futures = None, [], []
        done = asyncio.get_running_loop().run_in_executor(self.thread, self.function, texts)
        done.add_done_callback(functools.partial(self.answer, futures))

    @staticmethod
    def answer(futures: list[asyncio.Future[Ids]], done: asyncio.Future[list[Ids]]) -> None:
        error = done.exception()
        for number, future in enumerate(futures):
            # The task of a request may have been cancelled.
            if future.done():
                continue
            if error is None:
                future.set_result(done.result()[number])
            else:
                future.set_exception(error)

    def close(self) -> None:
        self.thread.shutdown()


def application(batcher: str, tokenizer: windrow.Tokenizer) -> Starlette:
    """The service, with the batcher `windrow` or `timer`."""

    def encode(texts: list[bytes]) -> list[Ids]:
        return tokenizer.encode_batch_ids(texts).tolist()

    calls: Calls
    if batcher == "windrow":
        calls = windrow.Batcher(encode, limit=LIMIT)
    elif batcher == "timer":
        calls = Timer(encode, LIMIT)
    else:
        raise ValueError(f"no batcher {batcher!r}: windrow or timer")

    async def answer(request: Request) -> JSONResponse:
        try:
            text = json.loads(await request.body())
            if not isinstance(text, str):
                raise ValueError("the body is not a text")
            # A text that cannot be encoded would fail its whole batch: half of a surrogate pair has no UTF-8.
            item = text.encode()
        except (ValueError, RecursionError) as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        return JSONResponse(await calls.submit(item))

    @contextlib.asynccontextmanager
    async def lifespan(_service: Starlette) -> AsyncIterator[None]:
        yield
        calls.close()

    return Starlette(routes=[Route("/encode", answer, methods=["POST"])], lifespan=lifespan)


def __getattr__(name: str) -> Starlette:
    """`app`, made when it is first asked for."""
    if name != "app":
        raise AttributeError(name)
    tokenizer = windrow.Tokenizer.from_tiktoken("gpt2")
    made = globals()["app"] = application(os.environ.get("SERVICE_BATCHER", "windrow"), tokenizer)
    return made
