"""Tiles without groups, and tiles as matrix products: what the arrays make of a convolution nest."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.hardware.dataflow.dataflow import IntColumn, TileColumns


class Products(NamedTuple):
    """Tiles as matrix products, one row a tile: ``repeats`` products, one after another, of (M x K) by (K x N)."""

    repeats: IntColumn
    M: IntColumn
    N: IntColumn
    K: IntColumn


class Placement(NamedTuple):
    """Which sizes of a product lie on the array's rows and columns, and which one streams past."""

    rows: IntColumn
    columns: IntColumn
    stream: IntColumn


def ungrouped(tiles: TileColumns) -> tuple[IntColumn, TileColumns]:
    """How many nests of one group each tile is, and such a nest: its ``channels`` and ``filters`` are those of a group.

    Groups are nests of their own, and so are samples whose weights another operator makes.
    """
    filters = np.where(tiles.groups > 1, np.minimum(tiles.filters, tiles.filters_per_group), tiles.filters)
    own_weights = tiles.weights_from_operator != 0
    nest = tiles._replace(
        batch=np.where(own_weights, 1, tiles.batch),
        channels=tiles.channels // tiles.groups,
        filters=filters,
        filters_per_group=filters,
        groups=np.ones_like(filters),
    )
    return -(-tiles.filters // filters) * np.where(own_weights, tiles.batch, 1), nest


def distinct_tiles(tiles: TileColumns) -> tuple[TileColumns, IntColumn]:
    """Each tile once, and for every tile of ``tiles`` its row there: what is dear is worked out once."""
    rows, inverse = np.unique(np.stack(tiles, axis=1), axis=0, return_inverse=True)
    return TileColumns(*(np.ascontiguousarray(column) for column in rows.T)), inverse.reshape(-1)


def matrix_products(tiles: TileColumns) -> Products:
    """Output positions by filters over the terms of each sum; kernels are unrolled, nothing is copied."""
    repeats, nest = ungrouped(tiles)
    M = nest.batch * nest.rows * nest.columns
    return Products(repeats, M, nest.filters, nest.channels * nest.kernel_rows * nest.kernel_columns)
