"""Parquet as input, Parquet and Arrow as output."""

import json
import pathlib
from typing import Literal

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


def test_duckdb_reads_arrow_through_pyarrow(corpus: pathlib.Path, tmp_path: pathlib.Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    ids = pa.ipc.open_file(encoded(corpus, tmp_path / "out", "arrow")).read_all()
    found = duckdb.from_arrow(ids).aggregate("sum(len(ids)), max(id)").fetchall()
    assert found == [(3, "4")]


def test_readers_take_shards_as_one_table(tmp_path: pathlib.Path) -> None:
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(f"line {number}\n" for number in range(3000)))
    formats: tuple[Literal["arrow", "parquet"], ...] = ("arrow", "parquet")
    for format in formats:
        windrow.encode_files(texts, tmp_path / format, "gpt2", lines=True, format=format, shard_size=10_000)
        assert len(list(tmp_path.glob(f"{format}-*.{format}"))) > 1
    windrow.encode_files(texts, tmp_path / "ids", "gpt2", lines=True, format="jsonl")
    ids = [json.loads(line)["ids"] for line in (tmp_path / "ids.jsonl").read_text().splitlines()]
    parquet, arrow = str(tmp_path / "parquet-*.parquet"), str(tmp_path / "arrow-*.arrow")
    assert [row[0] for row in duckdb.read_parquet(parquet).fetchall()] == ids
    assert polars.read_parquet(parquet)["ids"].to_list() == ids
    assert polars.read_ipc(arrow)["ids"].to_list() == ids
    assert pq.read_table(sorted(tmp_path.glob("parquet-*.parquet")))["ids"].to_pylist() == ids


@pytest.mark.parametrize("writer", ["polars", "duckdb"])
@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "uncompressed"])
def test_files_of_other_writers_are_read(tmp_path: pathlib.Path, writer: str, compression: str) -> None:
    library = pytest.importorskip(writer)
    file, texts = tmp_path / "in.parquet", ["Hello", "été 漢字", "", None] * 500
    if writer == "polars":
        table = library.DataFrame({"id": range(2000), "text": texts})
        table.write_parquet(file, compression=compression, row_group_size=300)
    else:
        rows = library.from_arrow(pa.table({"id": range(2000), "text": texts}))
        rows.write_parquet(str(file), compression=compression, row_group_size=2048)
    out = tmp_path / "out"
    summary = windrow.encode_files(file, out, "gpt2", format="jsonl", keep="id", on_error="skip")
    assert summary["documents"] == {"read": 2000, "written": 1500, "skipped": 500, "failed": 0}
    batch = windrow.Tokenizer.from_tiktoken("gpt2").encode_batch_ids([text for text in texts if text is not None])
    assert [json.loads(line)["ids"] for line in (tmp_path / "out.jsonl").read_text().splitlines()] == batch.tolist()
    kept = [json.loads(line)["id"] for line in (tmp_path / "out.kept.jsonl").read_text().splitlines()]
    assert kept == [number for number, text in enumerate(texts) if text is not None]


def test_fields_are_joined_and_kept_with_other_formats(tmp_path: pathlib.Path) -> None:
    lines = tmp_path / "in.jsonl"
    lines.write_text('{"a": {"b": "Hello"}, "c": " world", "id": 7}\n')
    out = tmp_path / "out"
    windrow.encode_files(lines, out, "gpt2", format="jsonl", field=["a.b", "c"], join="", keep="id")
    assert json.loads((tmp_path / "out.jsonl").read_text()) == {"ids": IDS[0]}
    assert json.loads((tmp_path / "out.kept.jsonl").read_text()) == {"id": 7}
