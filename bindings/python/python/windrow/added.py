"""Tokens that are added to a vocabulary."""

from __future__ import annotations

__all__ = ["AddedToken"]

_FIELDS = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")


class AddedToken:
    """A token that texts are searched for before anything else.

    It compares equal to the token of Hugging Face's library that has the same attributes.
    """

    __slots__ = {
        "_normalized": None,
        "content": "The text of the token.",
        "lstrip": "True if the token takes the white space before it.",
        "rstrip": "True if the token takes the white space after it.",
        "single_word": "True if the token is found only as a whole word.",
        "special": "True if decoding skips the token, if asked to.",
    }

    def __init__(
        self,
        content: str = "",
        single_word: bool = False,
        lstrip: bool = False,
        rstrip: bool = False,
        normalized: bool | None = None,
        special: bool = False,
    ) -> None:
        """A token with this text."""
        self.content, self.single_word, self.lstrip, self.rstrip = content, single_word, lstrip, rstrip
        self.special, self._normalized = special, normalized

    @property
    def normalized(self) -> bool:
        """True if the token is searched for in the normalized text. The default is True unless the token is special."""
        return not self.special if self._normalized is None else self._normalized

    @normalized.setter
    def normalized(self, value: bool) -> None:
        self._normalized = value

    def __eq__(self, other: object) -> bool:
        absent = object()
        return all(getattr(self, name) == getattr(other, name, absent) for name in _FIELDS)

    def __hash__(self) -> int:
        return hash(self.content)

    def __str__(self) -> str:
        return self.content

    def __repr__(self) -> str:
        flags = ", ".join(f"{name}={getattr(self, name)}" for name in ("rstrip", "lstrip", "single_word", "normalized", "special"))
        return f'AddedToken("{self.content}", {flags})'
