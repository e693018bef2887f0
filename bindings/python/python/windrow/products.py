"""Products of numpy matrices that overlap with their collective.

A communicator is one of mpi4py, or a ``Rank`` of a ``Group``, whose ranks are threads of this process:

>>> import numpy as np
>>> def product(rank):
...     a = np.full((4, 2), rank.Get_rank() + 1.0)
...     return matmul_all_reduce(rank, a, np.ones((2, 3)), tiles=2)
>>> Group(2).run(product)[0].tolist()[0]
[6.0, 6.0, 6.0]
"""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np

from windrow.errors import WindrowError
from windrow.overlap import PLANS, Outcome, Plan, Profile, _count, _counts, calibrate, run

if TYPE_CHECKING:
    from windrow.overlap import _Operation

__all__ = [
    "Communicator",
    "Group",
    "Rank",
    "RankError",
    "all_gather_matmul",
    "calibrate_matmul",
    "matmul_all_reduce",
    "matmul_reduce_scatter",
]

OPERATIONS = ("matmul-all-reduce", "matmul-reduce-scatter", "all-gather-matmul")

AGREED: dict[Any, tuple[list[int], float | None]] = {}
"""The rows of tiles and the predicted time that ranks agreed on, for each kind of call. Each call compares the entry."""

Array = np.ndarray[Any, Any]
Tiles = int | Sequence[int] | Plan | None
Result = TypeVar("Result")


class Communicator(Protocol):
    """The methods of an mpi4py communicator that are used here."""

    def Get_rank(self) -> int:
        """The number of this rank."""

    def Get_size(self) -> int:
        """Number of ranks."""

    def allgather(self, sendobj: Any) -> list[Any]:
        """The objects of all ranks, in their order."""

    def Allreduce(self, sendbuf: Any, recvbuf: Any) -> None:
        """Sums the buffers of all ranks, for each of them."""

    def Reduce_scatter_block(self, sendbuf: Any, recvbuf: Any) -> None:
        """Sums the buffers of all ranks, and gives each rank its block."""

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """Joins the buffers of all ranks, for each of them."""


class RankError(WindrowError):
    """A rank failed, so no rank has a result. ``rank`` is the first rank that failed."""

    rank: int

    def __init__(self, rank: int, reason: str) -> None:
        super().__init__(rank, reason)
        self.rank = rank

    def __str__(self) -> str:
        return f"rank {self.rank}: {self.args[1]}"


class Group:
    """Ranks in one process, one thread each, for tests and for learning."""

    def __init__(self, size: int) -> None:
        size = _count("size", size)
        self._barrier = threading.Barrier(size)
        self._posted: list[Any] = [None] * size
        self.ranks: list[Rank] = [Rank(self, rank) for rank in range(size)]

    def run(self, function: Callable[[Rank], Result]) -> list[Result]:
        """Calls ``function`` with each rank in a thread, and returns the results in order. If one raises, the others are released."""
        results: list[Any] = [None] * len(self.ranks)
        errors: list[BaseException] = []

        def of(rank: Rank) -> None:
            try:
                results[rank.Get_rank()] = function(rank)
            except BaseException as error:
                errors.append(error)
                self._barrier.abort()

        threads = [threading.Thread(target=of, args=(rank,), name=f"windrow-rank-{rank.Get_rank()}") for rank in self.ranks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._barrier.reset()
        if errors:
            raise next((error for error in errors if not isinstance(error, threading.BrokenBarrierError)), errors[0])
        return results


class Rank:
    """A rank of a ``Group``, with the methods of a communicator of mpi4py that are used here. Sums are added up in the order of the ranks."""

    def __init__(self, group: Group, rank: int) -> None:
        self._group, self._rank = group, rank

    def Get_rank(self) -> int:
        """The number of this rank."""
        return self._rank

    def Get_size(self) -> int:
        """Number of ranks."""
        return len(self._group.ranks)

    def _meet(self, mine: Any, take: Callable[[list[Any]], Result]) -> Result:
        group = self._group
        group._posted[self._rank] = mine
        group._barrier.wait()
        try:
            return take(group._posted)
        finally:
            # What was posted may change only when all have taken it.
            group._barrier.wait()

    def allgather(self, sendobj: Any) -> list[Any]:
        """The objects of all ranks, in their order."""
        return self._meet(sendobj, list)

    def Allreduce(self, sendbuf: Any, recvbuf: Any) -> None:
        """Sums the buffers of all ranks, for each of them."""
        self._meet(sendbuf, lambda all_of_them: _sum(all_of_them, recvbuf))

    def Reduce_scatter_block(self, sendbuf: Any, recvbuf: Any) -> None:
        """Sums the buffers of all ranks, and gives each rank its block."""
        def take(all_of_them: list[Any]) -> None:
            parts = [part.reshape(self.Get_size(), -1)[self._rank] for part in all_of_them]
            _sum(parts, recvbuf.reshape(-1))

        self._meet(sendbuf, take)

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """Joins the buffers of all ranks, for each of them."""
        def take(all_of_them: list[Any]) -> None:
            for place, part in zip(recvbuf.reshape(self.Get_size(), -1), all_of_them, strict=True):
                place[:] = part.reshape(-1)

        self._meet(sendbuf, take)


def _check(comm: object) -> None:
    for method in ("Get_rank", "Get_size", "allgather", "Allreduce"):
        if not callable(getattr(comm, method, None)):
            raise TypeError(f"comm must be an mpi4py communicator or a Rank of a Group, not {type(comm).__name__}")


def _check_threads(comm: object) -> None:
    """Refuses an MPI that takes calls of its main thread only: a thread of this package communicates. No rank raises it by itself."""
    mpi: Any = sys.modules.get("mpi4py.MPI")
    if mpi is None or not isinstance(comm, mpi.Comm):
        return
    level = mpi.Query_thread()
    if level < mpi.THREAD_SERIALIZED:
        name = "MPI_THREAD_SINGLE" if level == mpi.THREAD_SINGLE else "MPI_THREAD_FUNNELED"
        hint = "hint: set mpi4py.rc.thread_level = 'serialized' or 'multiple' before mpi4py.MPI is imported"
        raise WindrowError(f"comm: MPI was initialized with {name}, but a thread other than the main one communicates\n{hint}")


def _in_place(comm: object) -> Any:
    """What a collective takes instead of a buffer of its own, if the communicator is one of mpi4py."""
    mpi: Any = sys.modules.get("mpi4py.MPI")
    return None if mpi is None or not isinstance(comm, mpi.Comm) else mpi.IN_PLACE


SHARED_MEMORY = 2e-4
"""Seconds in which ranks that share memory exchange a few bytes, and ..."""
RATE = 1e9
"""... the bytes that they exchange in a second, however busy the CPUs are."""
NAPS = (2e-5, 5e-5)
"""The shortest and the longest sleep between two tests of a request, in seconds."""


def _exchange(comm: Any, name: str, send: Any, received: Array, is_tile: bool) -> None:
    """A collective. While it waits for one of a tile, the CPU is left to the thread that computes: a blocking call of MPI would keep it."""
    if not is_tile or _in_place(comm) is None:
        getattr(comm, name)(send, received)
        return
    request = getattr(comm, f"I{name.lower()}")(send, received)
    begin, yields = time.perf_counter(), SHARED_MEMORY + received.nbytes / RATE
    while not request.Test():
        waited = time.perf_counter() - begin
        # Without a sleep a link would idle while the other thread has its time slice; with it, each step in shared memory waits for a timer.
        time.sleep(0 if waited < yields else min(max(waited / 8, NAPS[0]), NAPS[1]))


def _matrix(name: str, value: object) -> None:
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{name} must be a numpy array, not {type(value).__name__}")
    if value.ndim != 2:
        raise ValueError(f"{name} has {value.ndim} dimensions, but must have 2")
    if value.dtype.kind not in "iufc":
        raise TypeError(f"{name} has dtype {value.dtype}, but must contain numbers")


def _sum(parts: list[Any], out: Any) -> None:
    out[:] = parts[0]
    for part in parts[1:]:
        out += part


def matmul_all_reduce(
    comm: Communicator,
    a: Array,
    b: Array,
    out: Array | None = None,
    *,
    tiles: Tiles = None,
    profile: Profile | None = None,
    outcomes: list[Outcome] | None = None,
) -> Array:
    """The sum over all ranks of ``a @ b``, on all ranks: m x k times k x n. Ranks may have different k.

    ``tiles`` is the number of tiles, their rows, or a ``Plan``; otherwise the ``profile`` of rank 0 decides. Without both there is one tile. What
    rank 0 decides holds for all. ``out`` must be contiguous; ``outcomes`` gets this rank's ``Outcome``. If one rank fails, all raise
    ``RankError``.
    """

    def prepared() -> _Call:
        _matrix("a", a)
        _matrix("b", b)
        m, n = a.shape[0], b.shape[1]
        sums = _result(out, (m, n), a, b)
        in_place = _in_place(comm)
        # Operands may share memory with `out`, and are read until the last tile is computed.
        apart = in_place is None or np.may_share_memory(sums, a) or np.may_share_memory(sums, b)
        partial = np.empty_like(sums) if apart else sums

        def compute(begin: int, end: int) -> None:
            np.matmul(a[begin:end], b, out=partial[begin:end])

        def communicate(begin: int, end: int) -> None:
            _exchange(comm, "Allreduce", partial[begin:end] if apart else in_place, sums[begin:end], end - begin < m)

        return _Call((m, n), 1, sums, compute, communicate)

    return _run(comm, "matmul-all-reduce", prepared, tiles, profile, outcomes)


def matmul_reduce_scatter(
    comm: Communicator,
    a: Array,
    b: Array,
    out: Array | None = None,
    *,
    tiles: Tiles = None,
    profile: Profile | None = None,
    outcomes: list[Outcome] | None = None,
) -> Array:
    """This rank's rows of the sum over all ranks of ``a @ b``: m x k times k x n gives m / ranks x n. Rank 0 gets the first rows.

    The arguments are those of ``matmul_all_reduce``. The rows of a tile are counted over all ranks together.
    """

    def prepared() -> _Call:
        _matrix("a", a)
        _matrix("b", b)
        ranks = comm.Get_size()
        m, n = a.shape[0], b.shape[1]
        each = _each(m, ranks)
        sums = _result(out, (each, n), a, b)
        by_rank = a.reshape(ranks, each, a.shape[1])
        computed: dict[int, Array] = {}

        def compute(begin: int, end: int) -> None:
            computed[begin] = np.matmul(by_rank[:, begin:end], b)

        def communicate(begin: int, end: int) -> None:
            # After a failed computation the other ranks still wait for this one.
            part = computed.pop(begin, None)
            part = np.zeros((ranks, end - begin, n), sums.dtype) if part is None else part
            _exchange(comm, "Reduce_scatter_block", part, sums[begin:end], end - begin < each)

        return _Call((m, n), ranks, sums, compute, communicate)

    return _run(comm, "matmul-reduce-scatter", prepared, tiles, profile, outcomes)


def all_gather_matmul(
    comm: Communicator,
    a: Array,
    b: Array,
    out: Array | None = None,
    *,
    tiles: Tiles = None,
    profile: Profile | None = None,
    outcomes: list[Outcome] | None = None,
) -> Array:
    """The rows of all ranks times ``b``: m / ranks x k times k x n gives m x n. The rows of rank 0 come first. Ranks may have different n.

    The arguments are those of ``matmul_all_reduce``. The rows of a tile are counted over all ranks together.
    """

    def prepared() -> _Call:
        _matrix("a", a)
        _matrix("b", b)
        ranks = comm.Get_size()
        each, k, n = a.shape[0], a.shape[1], b.shape[1]
        product = _result(out, (each * ranks, n), a, b)
        by_rank = product.reshape(ranks, each, n)
        mine = np.ascontiguousarray(a)
        gathered: dict[int, Array] = {}

        def communicate(begin: int, end: int) -> None:
            rows = np.empty((ranks, end - begin, k), mine.dtype)
            _exchange(comm, "Allgather", mine[begin:end], rows, end - begin < each)
            gathered[begin] = rows

        def compute(begin: int, end: int) -> None:
            np.matmul(gathered.pop(begin), b, out=by_rank[:, begin:end])

        return _Call((each * ranks, k), ranks, product, compute, communicate)

    return _run(comm, "all-gather-matmul", prepared, tiles, profile, outcomes)


class _Call(NamedTuple):
    """A call whose arguments fit each other."""

    equal: tuple[int, int]
    """Rows, and the other size that all ranks have in common."""
    unit: int
    """Tiles have a multiple of this many rows."""
    out: Array
    compute: Callable[[int, int], None]
    communicate: Callable[[int, int], None]


def _result(out: Array | None, shape: tuple[int, int], a: Array, b: Array) -> Array:
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"a is {a.shape[0]} x {a.shape[1]} and b is {b.shape[0]} x {b.shape[1]}: they cannot be multiplied")
    dtype = np.result_type(a, b)
    if out is None:
        return np.empty(shape, dtype)
    _matrix("out", out)
    if not out.flags.writeable:
        raise ValueError("out is read-only")
    if out.shape != shape or out.dtype != dtype or not out.flags.c_contiguous:
        raise ValueError(f"out must be a contiguous {shape[0]} x {shape[1]} array of {dtype}, not {out.shape} of {out.dtype}")
    return out


def _each(m: int, ranks: int) -> int:
    if m % ranks:
        raise ValueError(f"{m} rows cannot be divided evenly among {ranks} ranks")
    return m // ranks


def _run(
    comm: Communicator,
    operation: _Operation,
    prepared: Callable[[], _Call],
    tiles: Tiles,
    profile: Profile | None,
    outcomes: list[Outcome] | None,
) -> Array:
    """Agrees with the other ranks about the call, runs it, and agrees about how it ended. No rank raises before the others know."""
    _check(comm)
    call, cut, asked, failed = None, None, None, None
    try:
        asked = (repr(tiles.tiles if isinstance(tiles, Plan) else tiles), id(profile))
        _check_threads(comm)
        call = prepared()
        cut = _cut(call.equal[0], call.unit, tiles, profile) if comm.Get_rank() == 0 else None
    except Exception as error:
        failed = error
    header = (operation, *call.equal, call.out.dtype.str) if call else None
    # Rank 0 has decided; the others know what was agreed the last time that they made such a call.
    kind = (comm.Get_size(), header, asked)
    cut = cut or AGREED.get(kind)
    if not _equal(comm, repr((header, cut)) if cut and failed is None else None):
        calls = comm.allgather((header, cut, _reason(failed)))
        _raise_of([reason for _, _, reason in calls], failed)
        for rank, (other, _, _) in enumerate(calls):
            if other != calls[0][0]:
                kinds = [f"{name} of {rows} rows, {common} and {dtype}" for name, rows, common, dtype in (other, calls[0][0])]
                raise RankError(rank, f"calls {kinds[0]}, but rank 0 calls {kinds[1]}")
        cut = calls[0][1]
        if len(AGREED) >= PLANS:
            AGREED.clear()
        AGREED[kind] = cut
    assert call is not None and cut is not None, "otherwise it has failed"
    sizes, predicted = cut
    order: Any = "communicate-first" if operation == "all-gather-matmul" else "compute-first"
    outcome = None
    try:
        parts = [size // call.unit for size in sizes]
        outcome = run(parts, call.compute, call.communicate, order=order, communicate_all=True)
    except Exception as error:
        failed = error
    if not _equal(comm, None if failed else ""):
        _raise_of(comm.allgather(_reason(failed)), failed)
    if outcomes is not None and outcome is not None:
        outcomes.append(replace(outcome, tiles=list(sizes), predicted=predicted))
    return call.out


def _equal(comm: Communicator, mine: str | None) -> bool:
    """Whether all ranks have the same text, and none has None: by a collective of few numbers, which costs less than one of pickled objects."""
    digest = hashlib.blake2b((mine or "").encode(), digest_size=12).digest()
    words = np.frombuffer(digest, np.uint16).tolist()
    # Numbers are equal if and only if the square of their sum is their count times the sum of their squares.
    ranks, send = comm.Get_size(), np.array([mine is None, *words, *(word * word for word in words)], np.int64)
    sums = np.empty_like(send)
    comm.Allreduce(send, sums)
    missing, *rest = sums.tolist()
    return missing == 0 and all(one * one == ranks * square for one, square in zip(rest[:6], rest[6:], strict=True))


def _reason(failed: Exception | None) -> str | None:
    return None if failed is None else f"{type(failed).__name__}: {failed}"


def _raise_of(reasons: list[str | None], failed: Exception | None) -> None:
    for rank, reason in enumerate(reasons):
        if reason is not None:
            raise RankError(rank, reason) from failed


def _cut(rows: int, unit: int, tiles: Tiles, profile: Profile | None) -> tuple[list[int], float | None]:
    """The rows of each tile, of all ranks together, and the predicted time."""
    if profile is not None and not isinstance(profile, Profile):
        raise TypeError(f"profile must be a Profile, not {type(profile).__name__}")
    if tiles is None and profile is not None:
        tiles = profile.plan(rows)
    if isinstance(tiles, Plan):
        predicted, tiles = tiles.predicted, tiles.tiles
    else:
        predicted = None
    if tiles is None:
        tiles = 1
    if not isinstance(tiles, Iterable):
        units = rows // unit
        count = min(_count("tiles", tiles), max(units, 1))
        sizes = [(units * (place + 1) // count - units * place // count) * unit for place in range(count)]
        return [size for size in sizes if size], None
    sizes = _counts("tiles", tiles)
    if sum(sizes) != rows or any(size % unit for size in sizes):
        raise ValueError(f"tiles {sizes} do not add up to {rows} rows in multiples of {unit}")
    return sizes, predicted


def calibrate_matmul(
    comm: Communicator,
    operation: _Operation,
    n: int,
    k: int,
    rows: Sequence[int] = (256, 512, 768, 1024, 2048),
    *,
    dtype: Any = np.float32,
    align: int = 128,
    repeats: int = 5,
    tiles: int = 4,
) -> Profile:
    """Measures the tiles of a product and its collective. All ranks call it with the same arguments, and all get the same profile.

    If rows are divided among ranks, ``rows`` must be multiples of the number of ranks.
    """
    _check(comm)
    failed = None
    try:
        _check_threads(comm)
        if operation not in OPERATIONS:
            raise ValueError(f"operation {operation!r} is not one of {', '.join(OPERATIONS)}")
        for name, count in (("n", n), ("k", k), ("align", align), ("repeats", repeats), ("tiles", tiles)):
            _count(name, count)
        dtype = np.dtype(dtype)
        if dtype.kind not in "iufc":
            raise TypeError(f"dtype is {dtype}, but must be numeric")
        ranks, unit = comm.Get_size(), 1 if operation == "matmul-all-reduce" else comm.Get_size()
        rows = _counts("rows", rows)
        for size in rows:
            _each(size, unit)
        if len(set(rows)) < 3:
            raise ValueError(f"rows {rows} have fewer than three different sizes")
    except Exception as error:
        failed = error
    _raise_of(comm.allgather(_reason(failed)), failed)
    b = np.ones((k, n), dtype)
    most = max(rows)
    a, c = np.ones((most, k), dtype), np.empty((most, n), dtype)
    received = np.empty((most, max(n, k)), dtype)

    def compute(begin: int, end: int) -> None:
        np.matmul(a[begin:end], b, out=c[begin:end])

    def communicate(begin: int, end: int) -> None:
        size, flat = end - begin, received.reshape(-1)
        each = size // unit
        if operation == "matmul-all-reduce":
            _exchange(comm, "Allreduce", c[begin:end], flat[: size * n].reshape(size, n), size < most)
        elif operation == "matmul-reduce-scatter":
            _exchange(comm, "Reduce_scatter_block", c[begin:end], flat[: each * n].reshape(each, n), size < most)
        else:
            _exchange(comm, "Allgather", a[:each], flat[: size * k].reshape(size, k), size < most)

    def slowest(values: list[float]) -> list[float]:
        return [max(of) for of in zip(*comm.allgather(values), strict=True)]

    element = {"float32": "f32", "float64": "f64"}.get(dtype.name, dtype.name)
    shape = {"operation": operation, "element": element, "ranks": ranks, "n": n, "k": k}
    order: Any = "communicate-first" if operation == "all-gather-matmul" else "compute-first"
    return calibrate(compute, communicate, rows, order=order, repeats=repeats, tiles=tiles, align=align, slowest=slowest, **shape)
