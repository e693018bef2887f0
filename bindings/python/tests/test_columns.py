"""Parquet as input, Parquet and Arrow as output."""

import json
import pathlib

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

import windrow

IDS = [[15496, 995], [], [15496]]


@pytest.fixture
def corpus(tmp_path: pathlib.Path) -> pathlib.Path:
    file = tmp_path / "corpus.parquet"
    texts = ["Hello world", None, "", "Hello"]
    meta = [{"url": f"u{n}"} for n in range(4)]
    pq.write_table(pa.table({"id": [1, 2, 3, 4], "text": texts, "meta": meta}), file, row_group_size=2)
    return file


def encoded(corpus: pathlib.Path, out: pathlib.Path, format: str) -> pathlib.Path:
    """Encodes, keeping two columns, and returns the file of ids."""
    summary = windrow.encode_files(corpus, out, "gpt2", format=format, keep=["id", "meta.url"], on_error="skip")  # type: ignore[arg-type]
    assert summary["documents"] == {"read": 4, "written": 3, "skipped": 1, "failed": 0}
    return pathlib.Path(summary["outputs"][0])


@pytest.mark.parametrize("format", ["arrow", "parquet"])
def test_pyarrow_reads_what_it_wrote(corpus: pathlib.Path, tmp_path: pathlib.Path, format: str) -> None:
    file = encoded(corpus, tmp_path / "out", format)
    table = pq.read_table(file) if format == "parquet" else pa.ipc.open_file(file).read_all()
    assert table.schema.field("ids").type == pa.large_list(pa.field("item", pa.uint32(), nullable=False))
    assert table.to_pydict() == {"ids": IDS, "id": ["1", "3", "4"], "meta.url": ["u0", "u2", "u3"]}


@pytest.mark.parametrize("format", ["arrow", "parquet"])
def test_polars_reads_them(corpus: pathlib.Path, tmp_path: pathlib.Path, format: str) -> None:
    polars = pytest.importorskip("polars")
    file = encoded(corpus, tmp_path / "out", format)
    table = polars.read_parquet(file) if format == "parquet" else polars.read_ipc(file)
    assert table["ids"].to_list() == IDS
    assert table["meta.url"].to_list() == ["u0", "u2", "u3"]


def test_duckdb_reads_parquet(corpus: pathlib.Path, tmp_path: pathlib.Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    file = encoded(corpus, tmp_path / "out", "parquet")
    assert duckdb.sql(f"select ids, id from '{file}'").fetchall() == list(zip(IDS, ["1", "3", "4"], strict=True))


def test_fields_are_joined_and_kept_beside_other_formats(tmp_path: pathlib.Path) -> None:
    lines = tmp_path / "in.jsonl"
    lines.write_text('{"a": {"b": "Hello"}, "c": " world", "id": 7}\n')
    out = tmp_path / "out"
    windrow.encode_files(lines, out, "gpt2", format="jsonl", field=["a.b", "c"], join="", keep="id")
    assert json.loads((tmp_path / "out.jsonl").read_text()) == {"ids": IDS[0]}
    assert json.loads((tmp_path / "out.kept.jsonl").read_text()) == {"id": 7}
