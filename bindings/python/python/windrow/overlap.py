"""Work cut into tiles, so that the computation of one tile overlaps with the communication of another.

Two functions do the work of a range of rows: ``compute(begin, end)`` and ``communicate(begin, end)``. ``calibrate`` measures them, the
``Profile`` plans how to cut, or not to cut, and ``run`` runs them in two threads. ``matmul_all_reduce``, ``matmul_reduce_scatter`` and
``all_gather_matmul`` do this with numpy and a communicator: one of mpi4py, or the ranks of a ``Group`` in one process.

>>> profile = Profile.of([(256, 60), (512, 110), (1024, 210)], [(256, 50), (512, 90), (1024, 170)])
>>> plan = profile.plan(4096)
>>> len(plan.tiles) > 1 and plan.predicted < plan.serial
True

The idea of choosing tiles by fitted costs comes from Huawei's guide to operators that fuse computation and communication (MC2).
"""

from __future__ import annotations

import json
import operator
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from windrow import _windrow

__all__ = ["Outcome", "Plan", "Profile", "Samples", "Work", "calibrate", "plan", "run"]

Work: TypeAlias = Callable[[int, int], object]
Samples: TypeAlias = Iterable[tuple[int, float]]

if TYPE_CHECKING:
    _Operation: TypeAlias = Literal["matmul-all-reduce", "matmul-reduce-scatter", "all-gather-matmul"]

TRIALS = 9
"""Times that a cut is run in a calibration, alternately with the same rows in one tile."""

MOST = 16.0
"""The most by which lanes are taken to slow each other down: with more, no cut pays anyway."""


@dataclass(frozen=True)
class Plan:
    """A decision about how to cut. Times are in microseconds."""

    tiles: list[int]
    """Rows of each tile, in order. A single tile means that cutting does not pay."""
    predicted: float
    serial: float
    """The predicted time without tiles."""
    gap: float
    """The largest share by which another cut can be faster."""
    explanation: str

    def __str__(self) -> str:
        return self.explanation


PLANS = 64
"""Plans that a profile keeps: a program has few numbers of rows."""


def _count(name: str, value: object, least: int = 1) -> int:
    """The number that the argument of this name is."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be an int, not {type(value).__name__}") from None
    if isinstance(value, bool) or number < least:
        raise ValueError(f"{name} is {value}, but must be an int of at least {least}")
    return number


def _counts(name: str, values: object) -> list[int]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a list of ints, not {type(values).__name__}")
    return [_count(f"{name}[{at}]", value) for at, value in enumerate(values)]


def _samples(name: str, samples: Samples) -> list[tuple[int, float]]:
    if not isinstance(samples, Iterable):
        raise TypeError(f"{name} must be pairs of rows and microseconds, not {type(samples).__name__}")
    found = list(samples)
    for at, sample in enumerate(found):
        if not isinstance(sample, Sequence) or len(sample) != 2:
            raise TypeError(f"{name}[{at}] must be a pair of rows and microseconds, not {sample!r}")
        _count(f"rows of {name}[{at}]", sample[0])
    return found


def _function(name: str, value: Any) -> None:
    if not callable(value):
        raise TypeError(f"{name} must be a function of two row numbers, not {type(value).__name__}")


class Profile(_windrow.Profile):
    """The measured costs of an operation's tiles. Its JSON is what ``windrow plan`` and the Rust library read and write."""

    @staticmethod
    def of(
        compute: Samples,
        communicate: Samples,
        *,
        contention: tuple[float, float] = (1.0, 1.0),
        align: int = 1,
        most_tiles: int | None = None,
        operation: _Operation = "matmul-all-reduce",
        element: str = "f32",
        ranks: int = 1,
        n: int = 1,
        k: int = 1,
        limit: float = 0.3,
    ) -> Profile:
        """A profile of times measured elsewhere: (rows, microseconds) of tiles, in each lane by itself, of at least three sizes.

        ``contention`` is the factor by which each lane takes longer while the other one is busy. ``operation`` says which lane comes first.
        A fit that misses a sample by a larger share than ``limit`` is refused.
        """
        lanes = (("compute", _samples("compute", compute)), ("communicate", _samples("communicate", communicate)))
        for argument, count in (("align", align), ("ranks", ranks), ("n", n), ("k", k)):
            _count(argument, count)
        if most_tiles is not None:
            _count("most_tiles", most_tiles)
        stored: dict[str, object] = {
            **{"operation": operation, "element": element, "ranks": ranks, "n": n, "k": k},
            **{"align": align, "tolerance": 0.1, "limit": limit, "noise": 0.01},
            "contention": dict(zip(("compute", "communicate"), map(float, contention), strict=True)),
            "samples": [{"stage": lane, "m": rows, "microseconds": float(us)} for lane, samples in lanes for rows, us in samples],
        }
        if most_tiles is not None:
            stored["most_tiles"] = most_tiles
        return Profile(json.dumps(stored))

    @property
    def operation(self) -> _Operation:
        """The name of the operation, as in ``windrow plan``."""
        operation: _Operation = json.loads(self.to_json())["operation"]
        return operation

    def plan(self, rows: int) -> Plan:
        """The best cut of ``rows`` rows, which may be no cut. Each number of rows is planned once."""
        rows = _count("rows", rows, 0)
        # Made here: a base class of Rust has no place for it in its `__new__`.
        plans = self.__dict__.setdefault("_plans", {})
        found = plans.get(rows)
        if found is None:
            found = self._plan(rows)
            if len(plans) >= PLANS:
                plans.clear()
            plans[rows] = found
        tiles, *rest = found
        return Plan(list(tiles), *rest)


def plan(rows: int, compute: Samples, communicate: Samples, *, align: int = 1, most_tiles: int | None = None) -> Plan:
    """The best cut of this number of rows, given samples as for ``Profile.of``."""
    return Profile.of(compute, communicate, align=align, most_tiles=most_tiles).plan(rows)


@dataclass(frozen=True)
class Outcome:
    """A record of a run. Times are in microseconds since the call began."""

    tiles: list[int]
    elapsed: float
    compute: list[tuple[float, float]]
    """Start and end of each tile."""
    communicate: list[tuple[float, float]]
    predicted: float | None = None


class _Lane:
    """One of the two functions, timed."""

    def __init__(self, work: Work, begin: float) -> None:
        self.work, self.begin = work, begin
        self.spans: list[tuple[float, float]] = []

    def run(self, first: int, last: int) -> None:
        start = time.perf_counter()
        self.work(first, last)
        self.spans.append(((start - self.begin) * 1e6, (time.perf_counter() - self.begin) * 1e6))


def run(
    tiles: Plan | Sequence[int],
    compute: Work,
    communicate: Work,
    *,
    order: Literal["compute-first", "communicate-first"] = "compute-first",
    communicate_all: bool = False,
) -> Outcome:
    """Runs the tiles through both functions, each of which is called with the first row of a tile and the one after its last.

    This thread computes and another one communicates, in the order of the tiles. A single tile needs no other thread. If a function raises,
    no further tile begins, and this call raises it. With ``communicate_all`` all tiles are communicated nevertheless, so that
    other processes that take part do not wait for this one.
    """
    sizes = _counts("tiles", tiles.tiles if isinstance(tiles, Plan) else tiles)
    _function("compute", compute)
    _function("communicate", communicate)
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes))]
    ranges = [(end - rows, end) for rows, end in zip(sizes, ends, strict=True)]
    begin = time.perf_counter()
    computes, communicates = _Lane(compute, begin), _Lane(communicate, begin)
    if order == "compute-first":
        _compute_first(ranges, computes, communicates, communicate_all)
    elif order == "communicate-first":
        _communicate_first(ranges, computes, communicates, communicate_all)
    else:
        raise ValueError(f"order {order!r} is neither 'compute-first' nor 'communicate-first'")
    elapsed = (time.perf_counter() - begin) * 1e6
    predicted = tiles.predicted if isinstance(tiles, Plan) else None
    return Outcome(sizes, elapsed, computes.spans, communicates.spans, predicted)


def _compute_first(ranges: list[tuple[int, int]], computes: _Lane, communicates: _Lane, all_of_them: bool) -> None:
    failed: list[BaseException] = []
    if len(ranges) < 2:
        for place in ranges:
            _attempt(computes, place, failed)
            if all_of_them or not failed:
                _attempt(communicates, place, failed)
    else:
        ready: SimpleQueue[tuple[int, int] | None] = SimpleQueue()

        def others() -> None:
            while (place := ready.get()) is not None:
                if all_of_them or not failed:
                    _attempt(communicates, place, failed)

        with _Thread(others, lambda: ready.put(None)):
            for place in ranges:
                if not failed:
                    _attempt(computes, place, failed)
                if all_of_them or not failed:
                    ready.put(place)
    if failed:
        raise failed[0]


def _communicate_first(ranges: list[tuple[int, int]], computes: _Lane, communicates: _Lane, all_of_them: bool) -> None:
    failed: list[BaseException] = []
    ready: SimpleQueue[tuple[int, int]] = SimpleQueue()

    def others() -> None:
        for place in ranges:
            if all_of_them or not failed:
                _attempt(communicates, place, failed)
            ready.put(place)

    def these() -> None:
        for _ in ranges:
            place = ready.get()
            if not failed:
                _attempt(computes, place, failed)

    if len(ranges) < 2:
        others()
        these()
    else:
        with _Thread(others, lambda: None):
            these()
    if failed:
        raise failed[0]


def _attempt(lane: _Lane, place: tuple[int, int], failed: list[BaseException]) -> None:
    try:
        lane.run(*place)
    except BaseException as error:
        failed.append(error)


class _Thread:
    """A thread that has ended when its block is left, however that is."""

    def __init__(self, work: Callable[[], None], end: Callable[[], None]) -> None:
        self.thread, self.end = threading.Thread(target=work, name="windrow-communicate"), end

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *_exception: object) -> None:
        self.end()
        self.thread.join()


def calibrate(
    compute: Work,
    communicate: Work,
    rows: Sequence[int],
    *,
    order: Literal["compute-first", "communicate-first"] = "compute-first",
    repeats: int = 5,
    tiles: int = 4,
    align: int = 1,
    slowest: Callable[[list[float]], list[float]] = list,
    **shape: object,
) -> Profile:
    """Measures both functions for tiles of these numbers of rows, each by itself, and a cut of the largest number.

    ``tiles`` of one size run back to back, and a time is the median of ``repeats``, with sizes taken one after another. If the functions communicate
    with other processes, all of them call this with the same arguments, and ``slowest`` returns the largest values of all processes for its
    own, so that all call the functions equally often. ``shape`` are further arguments of ``Profile.of``.

    Contention is the factor with which the prediction for about four tiles matches the time they take. So it covers everything that
    tiles cost beyond their samples: two threads on one CPU, hand-overs, a link that only looks idle.
    """
    rows = _counts("rows", rows)
    for name, work in (("compute", compute), ("communicate", communicate), ("slowest", slowest)):
        _function(name, work)
    for name, count in (("repeats", repeats), ("tiles", tiles), ("align", align)):
        _count(name, count)
    if order not in ("compute-first", "communicate-first"):
        raise ValueError(f"order {order!r} is neither 'compute-first' nor 'communicate-first'")
    if len(set(rows)) < 3:
        raise ValueError(f"rows {list(rows)} have fewer than three different sizes")
    times: dict[int, tuple[list[float], list[float]]] = {size: ([], []) for size in rows}
    for size in rows:
        _timed(compute, size, 1)
        _timed(communicate, size, 1)
    for _ in range(repeats):
        for size, (computing, communicating) in times.items():
            computing.append(_timed(compute, size, tiles))
            communicating.append(_timed(communicate, size, tiles))
    medians = [statistics.median(values) for both in times.values() for values in both]
    agreed = slowest(medians)
    separate = dict(zip(times, zip(agreed[::2], agreed[1::2], strict=True), strict=True))
    if order == "communicate-first":
        shape.setdefault("operation", "all-gather-matmul")
    computed, communicated = ([(size, both[lane]) for size, both in separate.items()] for lane in (0, 1))

    def profile(factor: float) -> Profile:
        fits = {"contention": (factor, factor), "align": align, "limit": 1e6}
        return Profile.of(computed, communicated, **fits, **shape)  # type: ignore[arg-type]

    whole = max(rows)
    each = min((size for size in rows if size < whole), key=lambda size: abs(size - whole / 4))
    cut = [each] * (whole // each) + [whole % each] * (whole % each > 0)
    took: list[float] = []
    for _ in range(TRIALS):
        took += [run(sizes, compute, communicate, order=order).elapsed for sizes in (cut, [whole])]
    agreed = slowest(took)
    # The upper quartile: on a busy machine the median may be low where nothing is hidden.
    share = sorted(of_cut / of_whole for of_cut, of_whole in zip(agreed[::2], agreed[1::2], strict=True))[3 * TRIALS // 4]
    return profile(_contention(share, lambda factor: profile(factor).predict(cut) / profile(factor).predict([whole])))


def _contention(share: float, predicted: Callable[[float], float]) -> float:
    """The factor by which lanes slow each other down, such that a cut takes this share of the time in one tile."""
    least, most = 1.0, MOST
    if predicted(least) >= share:
        return least
    while most - least > 0.01:
        middle = (least + most) / 2
        if predicted(middle) < share:
            least = middle
        else:
            most = middle
    return most


def _timed(work: Work, rows: int, count: int) -> float:
    """Microseconds of a call."""
    start = time.perf_counter()
    for _ in range(count):
        work(0, rows)
    return (time.perf_counter() - start) * 1e6 / count
