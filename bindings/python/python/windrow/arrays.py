"""Batches as numpy arrays."""

from __future__ import annotations

from typing import Any

import numpy

from windrow._windrow import Ragged

__all__ = ["to_numpy"]


def to_numpy(batch: Ragged, pad_id: int | None) -> Any:
    """One array for each item, without a copy, or a single matrix padded with ``pad_id``."""
    values, offsets = numpy.asarray(batch.values), numpy.asarray(batch.offsets)
    if pad_id is None:
        return numpy.split(values, offsets[1:-1]) if len(batch) else []
    lengths = numpy.diff(offsets)
    matrix = numpy.full((len(batch), int(lengths.max(initial=0))), pad_id, numpy.uint32)
    matrix[numpy.arange(matrix.shape[1]) < lengths[:, None]] = values
    return matrix
