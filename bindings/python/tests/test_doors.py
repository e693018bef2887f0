"""One text has one answer: `bindings/doors.json` has the ids of texts, which the tests of the command and of Node compare, too."""

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pyarrow  # type: ignore[import-untyped]
import pytest

import windrow
from windrow.tables import EncodeColumn

DOORS: dict[str, Any] = json.loads(pathlib.Path(__file__).parents[2].joinpath("doors.json").read_text())


@pytest.fixture(scope="module")
def tokenizer() -> windrow.Tokenizer:
    return windrow.Tokenizer.from_str(json.dumps(DOORS["tokenizer"]))


@pytest.mark.parametrize("row", DOORS["texts"], ids=lambda row: row["about"])
def test_texts(tokenizer: windrow.Tokenizer, row: dict[str, Any]) -> None:
    text = json.loads(row["json"])
    calls: list[tuple[Callable[[], object], list[int] | None]] = [
        (lambda: tokenizer.encode_batch_ids([text]).tolist()[0], row["text"]),
        (lambda: tokenizer.encode_batch_ids([text], add_special_tokens=False).tolist()[0], row["text"] and row["text"][1:-1]),
        (lambda: tokenizer.encode(text).ids, row["encoding"]),
        (lambda: tokenizer.encode_batch([text])[0].ids, row["encoding"]),
    ]
    for number, (call, ids) in enumerate(calls):
        if ids is None:
            with pytest.raises(windrow.ItemError, match="half of a surrogate pair") as raised:
                call()
            assert raised.value.item == 0, number
        else:
            assert call() == ids, number
    if row["text"] is not None:
        table = EncodeColumn(tokenizer)(pyarrow.table({"text": [text]}))
        assert table["ids"].to_pylist() == [row["text"]]


@pytest.mark.parametrize("row", DOORS["texts"], ids=lambda row: row["about"])
def test_files(tokenizer: windrow.Tokenizer, tmp_path: pathlib.Path, row: dict[str, Any]) -> None:
    file, named = tmp_path / "in.jsonl", tmp_path / "tokenizer.json"
    file.write_text(f'{{"text": {row["json"]}}}\n')
    named.write_text(json.dumps(DOORS["tokenizer"]))
    for of in (tokenizer, named):
        if row["file"] is None:
            with pytest.raises(windrow.InputError, match="in.jsonl:1:"):
                windrow.encode_files(file, tmp_path / "out", of, format="jsonl")
            with pytest.raises(windrow.InputError, match="in.jsonl:1:"):
                windrow.count(file, of)
        else:
            windrow.encode_files(file, tmp_path / "out", of, format="jsonl", overwrite=True)
            assert json.loads((tmp_path / "out.jsonl").read_text())["ids"] == row["file"]
            assert windrow.count(file, of)["total"]["tokens"] == len(row["file"])
