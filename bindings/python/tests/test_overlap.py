"""Tiles: planned, calibrated and run."""

import json
import sys
import threading
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import once
from hypothesis import given, settings
from hypothesis import strategies as st

import windrow
from windrow.overlap import Profile, calibrate, run
from windrow.products import Communicator, Group, Rank, RankError, calibrate_matmul

COMPUTE = [(256, 60.0), (512, 110.0), (1024, 210.0)]
COMMUNICATE = [(256, 50.0), (512, 90.0), (1024, 170.0)]


def test_a_plan() -> None:
    plan = windrow.plan(4096, COMPUTE, COMMUNICATE, align=128)
    assert sum(plan.tiles) == 4096 and len(plan.tiles) > 1
    assert all(rows % 128 == 0 for rows in plan.tiles)
    assert plan.predicted < plan.serial
    assert "in one tile" in str(plan)
    profile = Profile.of(COMPUTE, COMMUNICATE, align=128)
    assert profile.plan(4096) == plan
    assert profile.predict(plan.tiles) == pytest.approx(plan.predicted)
    assert profile.predict([4096]) == pytest.approx(plan.serial)


def test_a_profile_is_json() -> None:
    profile = Profile.of(COMPUTE, COMMUNICATE, contention=(1.2, 1.1), n=512, k=256, ranks=2, most_tiles=4)
    again = Profile(profile.to_json())
    assert again.plan(4096) == profile.plan(4096)
    assert len(again.plan(4096).tiles) <= 4
    stored = json.loads(profile.to_json())
    assert (stored["operation"], stored["n"], len(stored["samples"])) == ("matmul-all-reduce", 512, 6)
    assert profile.operation == "matmul-all-reduce"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Profile("{}"), "missing field"),
        (lambda: Profile.of(COMPUTE[:2], COMMUNICATE), "three"),
        (lambda: Profile.of(COMPUTE, COMMUNICATE, contention=(0.5, 1.0)), "0.5"),
        (lambda: Profile.of(COMPUTE, [(256, -1.0), (512, 90.0), (1024, 170.0)]), "-1"),
        (lambda: Profile.of(COMPUTE, COMMUNICATE, operation="matmul"), "matmul-all-reduce"),  # type: ignore[arg-type]
        (lambda: Profile.of(COMPUTE, COMMUNICATE).predict([0]), "no rows"),
        (lambda: run([2, 0], print, print), r"tiles\[1\] is 0"),
        (lambda: run([2], print, print, order="both"), "order"),  # type: ignore[arg-type]
        (lambda: calibrate(print, print, [1, 2]), "three different sizes"),
    ],
)
def test_what_is_wrong_is_named(make: Callable[[], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


class Recorder:
    """Two functions that write down what they do."""

    def __init__(self, fails_at: tuple[str, int] | None = None) -> None:
        self.events: list[tuple[str, int, int]] = []
        self.threads: set[tuple[str, int]] = set()
        self.fails_at = fails_at

    def of(self, lane: str) -> Callable[[int, int], None]:
        def work(begin: int, end: int) -> None:
            if self.fails_at == (lane, begin):
                raise LookupError(f"{lane} of row {begin}")
            self.events.append((lane, begin, end))
            self.threads.add((lane, threading.get_ident()))

        return work

    def lane(self, name: str) -> list[tuple[int, int]]:
        return [(begin, end) for lane, begin, end in self.events if lane == name]


@pytest.mark.parametrize("order", ["compute-first", "communicate-first"])
@pytest.mark.parametrize("tiles", [[], [5], [2, 3], [1] * 50])
def test_tiles_pass_both_functions_in_order(order: Any, tiles: list[int]) -> None:
    recorder = Recorder()
    outcome = run(tiles, recorder.of("compute"), recorder.of("communicate"), order=order)
    ends = np.cumsum(tiles).tolist()
    expected = list(zip([0, *ends], ends, strict=False))
    assert recorder.lane("compute") == recorder.lane("communicate") == expected
    first, second = order.split("-")[0], "communicate" if order == "compute-first" else "compute"
    for begin, end in expected:
        assert recorder.events.index((first, begin, end)) < recorder.events.index((second, begin, end))
    assert len(outcome.compute) == len(outcome.communicate) == len(tiles)
    assert len({thread for _, thread in recorder.threads}) == min(len(tiles), 2)
    assert ("compute", threading.get_ident()) in recorder.threads or not tiles


def test_lanes_overlap() -> None:
    def sleep(begin: int, end: int) -> None:
        time.sleep(0.02 * (end - begin))

    def attempt() -> None:
        outcome = run([1] * 10, sleep, sleep)
        assert outcome.elapsed < 0.75 * 2 * 10 * 0.02e6
        assert outcome.compute[1][0] < outcome.communicate[0][1]

    once(attempt)


@pytest.mark.parametrize("order", ["compute-first", "communicate-first"])
@pytest.mark.parametrize("lane", ["compute", "communicate"])
@pytest.mark.parametrize("tiles", [[4], [1, 1, 1, 1]])
@pytest.mark.parametrize("communicate_all", [False, True])
def test_a_failure_at_every_tile(order: Any, lane: str, tiles: list[int], communicate_all: bool) -> None:
    before = threading.active_count()
    for row in range(0, 4, tiles[0]):
        recorder = Recorder(fails_at=(lane, row))
        with pytest.raises(LookupError, match=f"{lane} of row {row}"):
            run(tiles, recorder.of("compute"), recorder.of("communicate"), order=order, communicate_all=communicate_all)
        assert len(recorder.lane(lane)) <= row or communicate_all
        if communicate_all:
            assert len(recorder.lane("communicate")) == len(tiles) - (lane == "communicate")
    assert threading.active_count() == before


def test_calibration_finds_the_costs() -> None:
    def sleeps(fixed: float, each: float) -> Callable[[int, int], None]:
        return lambda begin, end: time.sleep(1e-6 * (fixed + each * (end - begin)))

    def attempt() -> None:
        profile = calibrate(sleeps(500, 10), sleeps(1000, 5), [100, 200, 400, 800], repeats=3, tiles=2)
        stored = json.loads(profile.to_json())
        found = {(sample["stage"], sample["m"]): sample["microseconds"] for sample in stored["samples"]}
        assert found["compute", 800] == pytest.approx(8500, rel=0.25)
        assert found["communicate", 800] == pytest.approx(5000, rel=0.25)
        assert stored["contention"]["compute"] < 1.5 and stored["contention"]["communicate"] < 1.5
        plan = profile.plan(3000)
        assert 1 < len(plan.tiles) < 30

    once(attempt)


def operands(rank: int, m: int, k: int, n: int, dtype: Any) -> tuple[Any, Any]:
    """Small integers, so that sums are exact."""
    random = np.random.default_rng(rank)
    return random.integers(-3, 4, (m, k)).astype(dtype), random.integers(-3, 4, (k, n)).astype(dtype)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(1, 12), st.integers(1, 5), st.integers(1, 6), st.data())
def test_products_equal_those_of_numpy(ranks: int, each: int, k: int, n: int, data: st.DataObject) -> None:
    m, dtype = each * ranks, data.draw(st.sampled_from([np.float32, np.float64, np.int64]))
    count = data.draw(st.integers(1, 8))
    cuts = sorted(data.draw(st.lists(st.integers(1, max(each - 1, 1)), max_size=4, unique=True)))
    cuts = [cut for cut in cuts if cut < each]
    tiles = data.draw(st.sampled_from([None, count, [ranks * (b - a) for a, b in zip([0, *cuts], [*cuts, each], strict=True)]]))
    full = [operands(rank, m, k, n, dtype) for rank in range(ranks)]
    total = sum(a @ b for a, b in full)

    def reduced(rank: Communicator) -> tuple[Any, Any]:
        a, b = full[rank.Get_rank()]
        out = np.empty((m, n), dtype)
        assert windrow.matmul_all_reduce(rank, a, b, out, tiles=tiles) is out
        return out, windrow.matmul_reduce_scatter(rank, a, b, tiles=tiles)

    parts = Group(ranks).run(reduced)
    for whole, _ in parts:
        np.testing.assert_array_equal(whole, total)
    np.testing.assert_array_equal(np.concatenate([part for _, part in parts]), total)

    rows = np.concatenate([a[:each] for a, _ in full])
    gathered = Group(ranks).run(
        lambda rank: windrow.all_gather_matmul(rank, full[rank.Get_rank()][0][:each], full[rank.Get_rank()][1], tiles=tiles)
    )
    for (_, b), product in zip(full, gathered, strict=True):
        np.testing.assert_array_equal(product, rows @ b)


def test_rank_0_decides_for_all() -> None:
    profile = Profile.of(COMPUTE, COMMUNICATE, ranks=2)

    def product(rank: Communicator) -> list[Any]:
        outcomes: list[Any] = []
        a = np.ones((2048, 8), np.float32)
        windrow.matmul_all_reduce(rank, a, a[:8], profile=profile if rank.Get_rank() == 0 else None, outcomes=outcomes)
        return outcomes

    ((first,), (second,)) = Group(2).run(product)
    assert first.tiles == second.tiles == profile.plan(2048).tiles
    assert first.predicted == second.predicted == profile.plan(2048).predicted


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (lambda rank, a, b: windrow.matmul_all_reduce(rank, a, b[1:]), "cannot be multiplied"),
        (lambda rank, a, b: windrow.matmul_all_reduce(rank, a[1:], b), "calls matmul-all-reduce of 8 rows"),
        (lambda rank, a, b: windrow.matmul_all_reduce(rank, a.astype("f8"), b), "float64|f8"),
        (lambda rank, a, b: windrow.matmul_reduce_scatter(rank, a, b), "calls matmul-reduce-scatter"),
        (lambda rank, a, b: windrow.matmul_reduce_scatter(rank, a[1:], b), "cannot be divided evenly"),
        (lambda rank, a, b: windrow.matmul_all_reduce(rank, a, b, np.empty((1, 1), "f4")), "out must be"),
    ],
)
def test_a_fault_of_one_rank_is_an_error_of_all(fault: Callable[..., object], says: str) -> None:
    a, b = np.ones((9, 4), "f4"), np.ones((4, 3), "f4")

    def product(rank: Communicator) -> str:
        with pytest.raises(RankError, match=says) as caught:
            if rank.Get_rank() == 1:
                fault(rank, a, b)
            else:
                windrow.matmul_all_reduce(rank, a, b)
        assert windrow.matmul_all_reduce(rank, a, b)[0, 0] == 12
        return f"{caught.value.rank}"

    assert Group(3).run(product) == ["1"] * 3


def test_ranks_agree_once_about_a_kind_of_call() -> None:
    """A second call exchanges numbers only, and follows rank 0 when its tiles change."""
    group = Group(3)
    a, b = np.ones((30, 4), "f4"), np.ones((4, 3), "f4")

    def product(rank: Communicator) -> list[list[int]]:
        objects: list[Any] = []
        outcomes: list[Any] = []
        exchange = rank.allgather

        def allgather(sendobj: Any) -> list[Any]:
            objects.append(sendobj)
            return exchange(sendobj)

        rank.allgather = allgather  # type: ignore[method-assign]
        cuts: list[Any] = [5, 5, 5, [10, 20], [10, 20], 5]
        for call, tiles in enumerate(cuts):
            objects.clear()
            mine = tiles if rank.Get_rank() == 0 else None
            assert (windrow.matmul_all_reduce(rank, a, b, tiles=mine, outcomes=outcomes) == 12).all()
            assert len(objects) == (0 if call in (1, 2, 4) else 1), call
        with pytest.raises(RankError, match="rank 2: ValueError: a is 30 x 4 and b is 3 x 3"):
            windrow.matmul_all_reduce(rank, a, b if rank.Get_rank() < 2 else b[1:], tiles=5)
        return [outcome.tiles for outcome in outcomes]

    with_five, with_two = [6] * 5, [10, 20]
    assert group.run(product) == [[with_five] * 3 + [with_two] * 2 + [with_five]] * 3


def test_a_failed_computation_stops_all_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    multiply = np.matmul

    def fails(a: Any, b: Any, **settings: Any) -> Any:
        if (a == 13).any():
            raise MemoryError("no room")
        return multiply(a, b, **settings)

    monkeypatch.setattr(np, "matmul", fails)
    for operation in (windrow.matmul_all_reduce, windrow.matmul_reduce_scatter, windrow.all_gather_matmul):
        for row in range(0, 8, 2):

            def product(rank: Communicator, operation: Any = operation, row: int = row) -> None:
                a = np.ones((8, 4), "f4")
                if rank.Get_rank() == 1:
                    a[row] = 13
                with pytest.raises(RankError, match="MemoryError: no room"):
                    operation(rank, a, np.ones((4, 3), "f4"), tiles=4)

            Group(2).run(product)


@pytest.mark.parametrize("operation", ["matmul-all-reduce", "matmul-reduce-scatter", "all-gather-matmul"])
def test_calibrating_products(operation: Any) -> None:
    profiles = Group(2).run(
        lambda rank: calibrate_matmul(rank, operation, 16, 8, [16, 32, 64], repeats=2, tiles=2, align=16)
    )
    assert profiles[0].to_json() == profiles[1].to_json()
    assert profiles[0].operation == operation
    assert sum(profiles[0].plan(256).tiles) == 256


def test_a_group_ends_when_a_rank_raises() -> None:
    def product(rank: Communicator) -> None:
        if rank.Get_rank() == 0:
            raise LookupError("rank 0 leaves")
        rank.allgather(1)

    with pytest.raises(LookupError, match="rank 0 leaves"):
        Group(2).run(product)
    with pytest.raises(ValueError, match="size is 0, but must be an int of at least 1"):
        Group(0)


@pytest.mark.parametrize("level", ["THREAD_SINGLE", "THREAD_FUNNELED", "THREAD_SERIALIZED", "THREAD_MULTIPLE"])
def test_an_mpi_that_allows_no_other_thread_is_refused(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module in the place of mpi4py.MPI, whose communicator is a rank of a group."""
    mpi = types.ModuleType("mpi4py.MPI")
    for number, name in enumerate(("THREAD_SINGLE", "THREAD_FUNNELED", "THREAD_SERIALIZED", "THREAD_MULTIPLE")):
        setattr(mpi, name, number)
    levels = threading.local()
    mpi.Comm, mpi.IN_PLACE = Rank, None  # type: ignore[attr-defined]
    # Only the last rank has it: all must raise, and none computes.
    mpi.Query_thread = lambda: getattr(levels, "level", 3)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", mpi)
    is_refused = level in ("THREAD_SINGLE", "THREAD_FUNNELED")
    a, b = np.ones((8, 4), "f4"), np.ones((4, 3), "f4")

    def product(rank: Communicator) -> None:
        if rank.Get_rank() == 2:
            levels.level = getattr(mpi, level)
        calls: list[Callable[[], Any]] = [
            lambda: windrow.matmul_all_reduce(rank, a, b, tiles=2),
            lambda: calibrate_matmul(rank, "matmul-all-reduce", 4, 4, [2, 4, 8], repeats=1, tiles=1),
        ]
        for call in calls:
            if is_refused:
                with pytest.raises(RankError, match=rf"rank 2: .*MPI_{level}.*\nhint: set mpi4py.rc.thread_level = 'serialized'"):
                    call()
            else:
                call()

    Group(3).run(product)


def test_a_plan_is_made_once() -> None:
    profile = Profile.of(COMPUTE, COMMUNICATE)
    first, again = profile.plan(4096), profile.plan(4096)
    assert again == first and again is not first

    def attempt() -> None:
        begin = time.perf_counter()
        for _ in range(1000):
            profile.plan(4096)
        # Microseconds a call; to plan takes some hundred times as long.
        assert (time.perf_counter() - begin) * 1e3 < 100

    once(attempt)
    first.tiles.clear()
    assert profile.plan(4096) == again
    for rows in range(1, 200):
        assert sum(profile.plan(rows).tiles) == rows
    assert profile.plan(4096) == again
