"""Columns of ids for libraries that work on Arrow tables, such as Ray Data and datasets."""

from os import PathLike
from typing import Any

from windrow._windrow import Tokenizer

__all__ = ["EncodeColumn", "encode_dataset"]


class EncodeColumn:
    """Adds the ids of a column of texts to a table.

    ``tokenizer`` is a ``Tokenizer``, a tiktoken name, or else the path to a file. The special tokens around a text are added, unless
    ``add_special_tokens=False``. An object of this class is a function of a table, and can be pickled:

    * datasets: ``dataset.with_format("arrow").map(EncodeColumn("tokenizer.json"), batched=True)``;
    * Ray Data: see ``encode_dataset``.

    The ids are a large list of uint32, without a copy of what the engine wrote. A text that is null or has no ids raises ``ItemError``, whose
    ``item`` is the row in the table.
    """

    def __init__(
        self,
        tokenizer: Tokenizer | str | PathLike[str],
        column: str = "text",
        ids: str = "ids",
        add_special_tokens: bool = True,
    ) -> None:
        for name, value in (("column", column), ("ids", ids)):
            if not isinstance(value, str):
                raise TypeError(f"{name} must be the name of a column, not {type(value).__name__}")
        self.tokenizer: Tokenizer = Tokenizer._of(tokenizer)
        self.column: str = column
        self.ids: str = ids
        self.add_special_tokens: bool = add_special_tokens

    def __call__(self, table: Any) -> Any:
        """The table with one more column, which replaces a column of the same name."""
        import pyarrow  # type: ignore[import-untyped]

        if not hasattr(table, "column_names"):
            raise TypeError(f"table must be an Arrow table, not {type(table).__name__}")
        if self.column not in table.column_names:
            names = ", ".join(table.column_names)
            raise KeyError(f"no column {self.column!r} among {names}")
        ids = pyarrow.array(self.tokenizer.encode_batch_ids(table.column(self.column), self.add_special_tokens))
        if self.ids in table.column_names:
            return table.set_column(table.column_names.index(self.ids), self.ids, ids)
        return table.append_column(self.ids, ids)


def encode_dataset(
    dataset: Any,
    tokenizer: Tokenizer | str | PathLike[str],
    column: str = "text",
    *,
    ids: str = "ids",
    add_special_tokens: bool = True,
    concurrency: int = 1,
    **options: Any,
) -> Any:
    """A Ray Data dataset with the ids of a column of texts.

    ``concurrency`` actors hold the tokenizer, each with the CPUs that Ray gives it: ``num_cpus=4`` is passed on to ``map_batches``, as all
    ``options`` are. Rows stay in their batches, and a batch whose actor has died is encoded again by Ray.
    """
    settings = {"column": column, "ids": ids, "add_special_tokens": add_special_tokens}
    return dataset.map_batches(
        EncodeColumn,
        fn_constructor_args=(tokenizer,),
        fn_constructor_kwargs=settings,
        batch_format="pyarrow",
        zero_copy_batch=True,
        concurrency=concurrency,
        **options,
    )
