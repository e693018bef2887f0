"""A rank of a product over MPI: `mpiexec -n 2 python ranks.py` fails unless all products are exact, on all ranks."""

import numpy as np
from mpi4py import MPI

import windrow
from windrow.products import RankError, calibrate_matmul

comm = MPI.COMM_WORLD
# Products take any communicator, such as a part of the world.
comm = comm.Split(0, comm.Get_rank())
rank, ranks = comm.Get_rank(), comm.Get_size()
m, k, n = 64 * ranks, 24, 32
full = [np.random.default_rng(seed).integers(-3, 4, (m, k)).astype("f4") for seed in range(ranks)]
b = np.arange(k * n, dtype="f4").reshape(k, n) % 7
total = sum(full) @ b
rows = np.concatenate([a[: m // ranks] for a in full])
own = slice(rank * (m // ranks), (rank + 1) * (m // ranks))
for tiles in (None, 3, 8):
    np.testing.assert_array_equal(windrow.matmul_all_reduce(comm, full[rank], b, tiles=tiles), total)
    np.testing.assert_array_equal(windrow.matmul_reduce_scatter(comm, full[rank], b, tiles=tiles), total[own])
    np.testing.assert_array_equal(windrow.all_gather_matmul(comm, full[rank][: m // ranks], b, tiles=tiles), rows @ b)
profile = calibrate_matmul(comm, "matmul-all-reduce", n, k, [64, 128, 256], align=16, repeats=2)
np.testing.assert_array_equal(windrow.matmul_all_reduce(comm, full[rank], b, profile=profile), total)
try:
    windrow.matmul_all_reduce(comm, full[rank], b[1:] if rank == ranks - 1 else b)
except RankError as error:
    assert error.rank == ranks - 1, error
else:
    raise AssertionError("a rank with another shape was accepted")
