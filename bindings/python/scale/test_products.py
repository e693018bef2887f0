"""Overlapped work over MPI and over torch: see `test_scale.py`. What is not installed is skipped, and said so."""

import pathlib
import shutil
import subprocess
import sys

import pytest

from windrow.overlap import calibrate, run

HERE = pathlib.Path(__file__).parent


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_products_over_mpi(ranks: int) -> None:
    pytest.importorskip("mpi4py")
    mpiexec = shutil.which("mpiexec", path=str(pathlib.Path(sys.executable).parent)) or shutil.which("mpiexec")
    if mpiexec is None:
        pytest.skip("no mpiexec")
    subprocess.run([mpiexec, "-n", str(ranks), sys.executable, str(HERE / "ranks.py")], check=True, timeout=120)


def of_torch(rank: int, ranks: int, meeting: str) -> None:
    """The sum of all products, computed by torch and reduced by gloo, in tiles."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    a, b = torch.full((512, 64), rank + 1.0), torch.ones(64, 48)
    out = torch.empty(512, 48)

    def compute(begin: int, end: int) -> None:
        torch.mm(a[begin:end], b, out=out[begin:end])

    def communicate(begin: int, end: int) -> None:
        dist.all_reduce(out[begin:end])

    def slowest(values: list[float]) -> list[float]:
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        return tensor.tolist()

    profile = calibrate(compute, communicate, [64, 128, 256, 512], repeats=2, align=16, slowest=slowest)
    # Rank 0 decides: the profiles differ by the noise of their sums, if at all.
    tiles = [profile.plan(512).tiles]
    dist.broadcast_object_list(tiles, 0)
    for cut in (tiles[0], [128] * 4):
        outcome = run(cut, compute, communicate)
        assert len(outcome.compute) == len(cut)
        assert torch.equal(out, torch.full((512, 48), 64.0 * sum(range(1, ranks + 1))))
    dist.destroy_process_group()


def test_workers_of_a_data_loader() -> None:
    """They are forked from a process that has encoded, and encode with its tokenizer."""
    torch = pytest.importorskip("torch")
    import windrow

    tokenizer = windrow.Tokenizer.from_tiktoken("gpt2")
    texts = [f"text {n} " * 500 for n in range(64)]
    expected = tokenizer.encode_batch_ids(texts * 10).tolist()[: len(texts)]

    class Texts(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
        def __len__(self) -> int:
            return len(texts)

        def __getitem__(self, place: int) -> str:
            return texts[place]

    loader = torch.utils.data.DataLoader(
        Texts(), batch_size=8, num_workers=2, collate_fn=lambda batch: tokenizer.encode_batch_ids(batch * 10).tolist()[: len(batch)]
    )
    assert [ids for batch in loader for ids in batch] == expected


def test_two_callables_of_torch(tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")
    torch.multiprocessing.spawn(of_torch, (2, str(tmp_path / "meeting")), nprocs=2)
