"""windrow under Ray Data, datasets and starlette: `pip install . -r scale/requirements.txt && python -m pytest scale`."""

import asyncio
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import datasets
import pyarrow as pa
import pytest
import ray

import windrow
from windrow.tables import EncodeColumn, encode_dataset

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))
import service
import service_load

TEXTS = [f"Hello wörld, number {n}!" + " more" * (n % 50) for n in range(20_000)]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    data = pathlib.Path(os.environ.get("WINDROW_DATA") or pathlib.Path(__file__).parents[4] / "shared/data")
    path = data / "tok/gpt2.json"
    if not path.exists():
        pytest.skip(f"no {path}")
    return str(path)


@pytest.fixture(scope="module")
def expected(file: str) -> list[list[int]]:
    return windrow.Tokenizer.from_file(file).encode_batch_ids(TEXTS).tolist()


@pytest.fixture(scope="module")
def rays() -> object:
    # The actors take some, and what feeds them needs others.
    path = {"env_vars": {"PYTHONPATH": str(pathlib.Path(__file__).parent)}}
    ray.init(num_cpus=8, include_dashboard=False, logging_level="warning", runtime_env=path)
    yield
    ray.shutdown()


def table() -> pa.Table:
    return pa.table({"row": range(len(TEXTS)), "text": TEXTS})


def ids(dataset: "ray.data.Dataset") -> list[list[int]]:
    rows = sorted(dataset.take_all(), key=lambda row: row["row"])
    assert [row["row"] for row in rows] == list(range(len(TEXTS))), "each row once"
    return [list(row["ids"]) for row in rows]


def test_four_actors_give_the_ids_of_one_process(file: str, expected: list[list[int]], rays: object) -> None:
    dataset = ray.data.from_arrow(table()).repartition(16)
    assert ids(encode_dataset(dataset, file, concurrency=4, batch_size=500)) == expected


class Dies(EncodeColumn):
    """Its first process ends in the middle of its work."""

    def __init__(self, file: str, mark: str) -> None:
        super().__init__(file)
        self.mark, self.calls = pathlib.Path(mark), 0

    def __call__(self, table: pa.Table) -> pa.Table:
        self.calls += 1
        if self.calls == 3:
            try:
                self.mark.touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.01)
        return super().__call__(table)


def test_an_actor_that_dies_loses_and_repeats_nothing(
    file: str, expected: list[list[int]], rays: object, tmp_path: pathlib.Path
) -> None:
    dataset = ray.data.from_arrow(table()).repartition(16)
    mark = tmp_path / "died"
    encoded = dataset.map_batches(
        Dies, fn_constructor_args=(file, str(mark)), batch_format="pyarrow", batch_size=250, concurrency=2
    )
    assert ids(encoded) == expected
    assert mark.exists(), "an actor has died"


@pytest.mark.parametrize("processes", [None, 2])
def test_datasets(file: str, expected: list[list[int]], processes: int | None, tmp_path: pathlib.Path) -> None:
    dataset = datasets.Dataset(table(), fingerprint=f"texts-{processes}").with_format("arrow")
    encoded = dataset.map(EncodeColumn(file), batched=True, num_proc=processes, keep_in_memory=processes is None)
    assert [row.as_py() for row in encoded[:]["ids"]] == expected


@pytest.mark.parametrize("batcher", service_load.BATCHERS)
def test_requests_of_a_service_are_batches(batcher: str, file: str, expected: list[list[int]]) -> None:
    tokenizer, sizes = windrow.Tokenizer.from_file(file), []

    class Counted:
        def encode_batch_ids(self, texts: list[bytes]) -> windrow.Ragged:
            sizes.append(len(texts))
            return tokenizer.encode_batch_ids(texts)

    async def all_of_them() -> None:
        app = service.application(batcher, Counted())
        bad = [b"", b"[", b"[" * 100_000, b"3", b"null", b"\xff", b'"\\ud800"', b'"half \\udc00 of a pair"']
        async with app.router.lifespan_context(app):
            texts = [service_load.post(app, "/encode", json.dumps(text).encode()) for text in TEXTS[:2000]]
            refused = [service_load.post(app, "/encode", body) for body in bad]
            *answers, last = await asyncio.gather(*texts, asyncio.gather(*refused))
        assert [status for status, _ in last] == [400] * len(bad)
        assert [(status, json.loads(body)) for status, body in answers] == [(200, ids) for ids in expected[:2000]]

    asyncio.run(all_of_them())
    assert sum(sizes) == 2000
    assert max(sizes) <= service.LIMIT
    assert len(sizes) < 200


@pytest.mark.parametrize("batcher", service_load.BATCHERS)
def test_a_service_answers_after_cancelled_requests(batcher: str, file: str) -> None:
    async def all_of_them() -> None:
        app = service.application(batcher, windrow.Tokenizer.from_file(file))
        async with app.router.lifespan_context(app):
            requests = [asyncio.ensure_future(service_load.post(app, "/encode", b'"Hello"')) for _ in range(100)]
            await asyncio.sleep(0)
            for request in requests[::2]:
                request.cancel()
            assert [await request for request in requests[1::2]] == [(200, b"[15496]")] * 50

    asyncio.run(all_of_them())


def test_the_load_of_a_service() -> None:
    words = [sys.executable, "service_load.py", "--clients", "50", "--pauses", "0.01", "--seconds", "0.5", "--rounds", "1"]
    done = subprocess.run(words, cwd=EXAMPLES, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    head, *lines = done.stdout.splitlines()
    assert head == "batcher,clients,pause_s,requests_per_second,p50_ms,p99_ms"
    assert [line.split(",")[0] for line in lines] == service_load.BATCHERS
    assert all(float(value) > 0 for line in lines for value in line.split(",")[1:])
