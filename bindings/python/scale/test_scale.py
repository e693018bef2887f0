"""windrow under Ray Data and datasets: `pip install . -r scale/requirements.txt && python -m pytest scale`."""

import os
import pathlib
import signal
import time

import datasets
import pyarrow as pa
import pytest
import ray

import windrow
from windrow.tables import EncodeColumn, encode_dataset

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
