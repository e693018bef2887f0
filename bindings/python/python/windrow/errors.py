"""The exceptions that windrow raises in addition to Python's own."""

__all__ = ["InputError", "ItemError", "TokenizerError", "WindrowError"]


class WindrowError(Exception):
    """The base of all errors of this package."""


class TokenizerError(WindrowError, ValueError):
    """A tokenizer cannot be loaded, or does not support the requested operation."""


class InputError(WindrowError, ValueError):
    """A document, a file or an option of ``encode_files`` or ``count`` is bad."""


class ItemError(WindrowError, ValueError):
    """An item of a batch has no result.

    Nothing of the batch is returned. ``item`` is the index of the first such item in the batch, counted from 0.
    """

    item: int

    def __init__(self, item: int, reason: str) -> None:
        super().__init__(item, reason)
        self.item = item

    def __str__(self) -> str:
        return f"item {self.item}: {self.args[1]}"
