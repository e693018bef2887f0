"""The examples of the documents run."""

import doctest
import pathlib
import re

import pytest

import windrow
import windrow.batcher
import windrow.files
import windrow.overlap
import windrow.products

ROOT = pathlib.Path(__file__).parents[3]


def test_examples() -> None:
    for page in ("bindings/python/README.md", "README.md"):
        blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        assert blocks
        names: dict[str, object] = {}
        for block in blocks:
            exec(compile(block, "an example", "exec"), names)


def test_the_book(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = 0
    for page in sorted((ROOT / "book/src").glob("*.md")):
        names: dict[str, object] = {}
        for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            exec(compile(block, page.name, "exec"), names)
            ran += 1
    assert ran >= 5


def test_docstrings() -> None:
    for module in (windrow, windrow.batcher, windrow.files, windrow.overlap, windrow.products):
        outcome = doctest.testmod(module)
        assert outcome.attempted > 0
        assert outcome.failed == 0
