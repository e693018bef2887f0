"""Tokens that are added to a vocabulary."""

from dataclasses import dataclass

__all__ = ["AddedToken"]


@dataclass(frozen=True)
class AddedToken:
    """A token that texts are searched for before anything else.

    ``single_word``: only as a whole word. ``lstrip``, ``rstrip``: it takes the white space before or behind it.
    ``normalized``: it is searched in the normalized text. ``special``: decoding leaves it out, if asked to.
    """

    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = True
    special: bool = False

    def __str__(self) -> str:
        return self.content
