#!/usr/bin/env python3
"""Makes a graph of a kind that `millstream generate` does not make, as measured in
docs/measurements/algorithms.md#other-graphs. Needs numpy.

    scripts/other-graphs.py KIND FILE.mill
"""
import struct
import sys
import zlib

import numpy as np

MILLION = 1 << 20
random = np.random.default_rng(1)


def write(path, vertices, sources, targets, both_ways=True):
    """Arcs in order, each once, without those from a vertex to itself."""
    sources, targets = (np.asarray(ends, dtype=np.uint64) for ends in (sources, targets))
    arcs = sources << np.uint64(32) | targets
    if both_ways:
        arcs = np.concatenate([arcs, targets << np.uint64(32) | sources])
    sources, targets = arcs >> np.uint64(32), arcs & np.uint64(0xFFFFFFFF)
    arcs = np.sort(arcs[sources != targets])
    arcs = arcs[np.insert(arcs[1:] != arcs[:-1], 0, True)]
    offsets = np.zeros(vertices + 1, dtype="<u8")
    degrees = np.bincount((arcs >> np.uint64(32)).astype(np.int64), minlength=vertices)
    offsets[1:] = np.cumsum(degrees)
    targets = (arcs & np.uint64(0xFFFFFFFF)).astype("<u4")
    # Neither weights nor original ids.
    sections = [offsets.tobytes(), targets.tobytes(), b"", b""]
    checks = [zlib.crc32(section) for section in sections]
    magic = b"\x93MILL\r\n\x1a"
    header = struct.pack("<8sIIQQI4I", magic, 1, 0, vertices, len(targets), 0, *checks)
    header = header.ljust(60, b"\0")
    with open(path, "wb") as file:
        file.write(header + struct.pack("<I", zlib.crc32(header)))
        for section in filter(None, sections):
            file.write(b"\0" * (-file.tell() % 64) + section)
    print(f"{vertices} vertices, {len(targets)} arcs, {degrees.max()} at most of a vertex")


def mesh(path, size, steps, kept=1, shuffled=False):
    """A lattice, with edges to what lies as far away as `steps` say, or so large a part of them."""
    ids = np.arange(np.prod(size)).reshape(size)
    edges = []
    for step in steps:
        here = tuple(slice(max(0, -by), min(all, all - by)) for by, all in zip(step, size))
        there = tuple(slice(max(0, by), min(all, all + by)) for by, all in zip(step, size))
        edges.append((ids[here].ravel(), ids[there].ravel()))
    sources, targets = (np.concatenate(ends) for ends in zip(*edges))
    if kept < 1:
        is_kept = random.random(sources.size) < kept
        sources, targets = sources[is_kept], targets[is_kept]
    if shuffled:
        names = random.permutation(ids.size)
        sources, targets = names[sources], names[targets]
    write(path, ids.size, sources, targets)


def triangles(path, side):
    """A lattice of squares, each with one of its diagonals at random."""
    at = np.arange(side * side)
    row, column = at // side, at % side
    inside = (row < side - 1) & (column < side - 1)
    falls = random.random(at.size) < 0.5
    right, down = at[column < side - 1], at[row < side - 1]
    falling, rising = at[inside & falls], at[inside & ~falls]
    sources = np.concatenate([right, down, falling, rising + 1])
    targets = np.concatenate([right + 1, down + side, falling + side + 1, rising + side])
    write(path, at.size, sources, targets)


def ring(path, vertices, moved):
    """Each vertex beside the next four (Watts and Strogatz, 1998), some ends moved anywhere."""
    sources = np.tile(np.arange(vertices), 4)
    targets = (sources + np.repeat(np.arange(1, 5), vertices)) % vertices
    elsewhere = random.random(sources.size) < moved
    targets[elsewhere] = random.integers(0, vertices, elsewhere.sum())
    write(path, vertices, sources, targets)


def geometric(path, vertices, degree):
    """Points anywhere in a square, each beside those nearer than gives `degree` arcs, in order of
    squares as wide as that."""
    reach = np.sqrt(degree / np.pi / vertices)
    side = int(1 / reach)
    points = random.random((2, vertices))
    column, row = (points * side).astype(np.int64)
    order = np.argsort(row * side + column, kind="stable")
    (x, y), cell = points[:, order], (row * side + column)[order]
    begins = np.searchsorted(cell, np.arange(side * side + 1))
    sources, targets = [], []
    for right, down in [(0, 0), (1, 0), (-1, 1), (0, 1), (1, 1)]:
        other = cell + down * side + right
        inside = (cell % side + right >= 0) & (cell % side + right < side) & (other < side * side)
        ours = np.arange(vertices)[inside]
        first, counts = begins[other[inside]], np.diff(begins)[other[inside]]
        source = np.repeat(ours, counts)
        place = np.arange(source.size) - np.repeat(np.cumsum(counts) - counts, counts)
        target = np.repeat(first, counts) + place
        near = (x[source] - x[target]) ** 2 + (y[source] - y[target]) ** 2 < reach**2
        sources.append(source[near])
        targets.append(target[near])
    write(path, vertices, np.concatenate(sources), np.concatenate(targets))


def uniform(path, vertices, edges):
    """Ends anywhere."""
    write(path, vertices, *random.integers(0, vertices, (2, edges)))


def bipartite(path, users, items, edges):
    """Few items that many want, and most of them few."""
    wanted = (items * random.random(edges) ** 3).astype(np.int64)
    write(path, users + items, random.integers(0, users, edges), users + wanted)


def hubs(path, vertices, count):
    """Each hub beside all other vertices."""
    others = np.arange(count, vertices)
    write(path, vertices, np.repeat(np.arange(count), others.size), np.tile(others, count))


def ranked(path, vertices, edges):
    """The vertices with the most arcs come first."""
    ends = (vertices * random.random((2, edges)) ** 4).astype(np.int64)
    write(path, vertices, *ends)


def two_levels(path, children):
    """A root with children, each of which has as many."""
    leaves = np.arange(children * children)
    parents = np.concatenate([np.zeros(children, dtype=np.int64), 1 + leaves // children])
    write(path, 1 + parents.size, parents, np.arange(1, 1 + parents.size))


def outgoing(path, vertices, arcs):
    """So many arcs from each vertex to anywhere, and not back."""
    sources = np.tile(np.arange(vertices), arcs)
    write(path, vertices, sources, random.integers(0, vertices, sources.size), both_ways=False)


RIGHT, DOWN, FALLING, RISING = (0, 1), (1, 0), (1, 1), (1, -1)
CUBE = [(0, 0, 1), (0, 1, 0), (1, 0, 0)]
# One of two opposite steps each.
SQUARE24 = [(0, 1), (0, 2)] + [(down, right) for down in (1, 2) for right in range(-2, 3)]
CUBE26 = CUBE[:1] + [(0, 1, right) for right in (-1, 0, 1)]
CUBE26 += [(1, down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)]
KINDS = {
    "mesh6": lambda path: mesh(path, (4000, 4000), [RIGHT, DOWN, FALLING]),
    "mesh12": lambda path: mesh(
        path, (2048, 2048), [RIGHT, DOWN, FALLING, RISING, (0, 2), (2, 0)]
    ),
    "mesh24": lambda path: mesh(path, (2048, 2048), SQUARE24),
    "shuffled-road": lambda path: mesh(
        path, (4900, 4900), [RIGHT, DOWN], kept=0.605, shuffled=True
    ),
    "shuffled-mesh6": lambda path: mesh(
        path, (4000, 4000), [RIGHT, DOWN, FALLING], shuffled=True
    ),
    "triangles": lambda path: triangles(path, 4000),
    "cube": lambda path: mesh(path, (256, 256, 256), CUBE),
    "shuffled-cube": lambda path: mesh(path, (256, 256, 256), CUBE, shuffled=True),
    "cube26": lambda path: mesh(path, (192, 192, 192), CUBE26),
    "geometric": lambda path: geometric(path, 16 * MILLION, 16),
    "small-geometric": lambda path: geometric(path, 4 * MILLION, 16),
    "ring": lambda path: ring(path, MILLION, 0),
    "small-world": lambda path: ring(path, 8 * MILLION, 0.01),
    "uniform": lambda path: uniform(path, 4 * MILLION, 32 * MILLION),
    "bipartite": lambda path: bipartite(path, 4 * MILLION, 20000, 32 * MILLION),
    "star": lambda path: hubs(path, 32 * MILLION, 1),
    "hubs": lambda path: hubs(path, 2 * MILLION, 16),
    "ranked": lambda path: ranked(path, 4 * MILLION, 32 * MILLION),
    "two-levels": lambda path: two_levels(path, 2000),
    "outgoing": lambda path: outgoing(path, 8 * MILLION, 3),
}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in KINDS:
        sys.exit(f"{__doc__}\nKIND: {', '.join(KINDS)}")
    KINDS[sys.argv[1]](sys.argv[2])
