"""Columns of ids in tables."""

import pathlib
import pickle

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from test_load import byte_level

import windrow
from windrow.tables import EncodeColumn


def test_a_column_is_added_or_replaced(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(byte_level())
    table = pa.table({"id": [1, 2, 3], "text": ["ab", "", "ba"]})
    encode = EncodeColumn(file)
    for one in (encode, pickle.loads(pickle.dumps(encode)), EncodeColumn(windrow.Tokenizer.from_file(file))):
        out = one(table)
        assert out.column_names == ["id", "text", "ids"]
        assert out.column("ids").to_pylist() == [[256], [], [98, 97]]
        assert one(out).equals(out)
    other = EncodeColumn(file, "id2", "tokens")
    with pytest.raises(KeyError, match="no column 'id2' among id, text"):
        other(table)
    with pytest.raises(windrow.ItemError, match="item 1: is null"):
        encode(pa.table({"text": ["a", None]}))
