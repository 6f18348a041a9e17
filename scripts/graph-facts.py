#!/usr/bin/env python3
"""Prints facts of graphs that Millstream's answers are compared with.

    scripts/graph-facts.py GRAPH...

Reads Matrix Market (.mtx) and edge lists (anything else), plain or .gz, and
shares no code with Millstream: vertices, arcs stored, self-loops, weak
components, and breadth-first search along the arcs from the vertex that most
arcs leave (the smallest such id).
"""

import gzip
import sys
from collections import Counter


def read(path):
    """Vertex count and arcs, 0-based."""
    opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path)
    with opened as file:
        lines = file.read().splitlines()
    rows = [line.replace(",", " ").split() for line in lines if line and line[0] not in "#%"]
    if ".mtx" not in path:
        arcs = [(int(row[0]), int(row[1])) for row in rows]
        return 1 + max(map(max, arcs)), arcs
    arcs = [(int(row[0]) - 1, int(row[1]) - 1) for row in rows[1:]]
    if "symmetric" in lines[0]:
        arcs += [(head, tail) for tail, head in arcs if tail != head]
    return int(rows[0][0]), arcs


def components(vertices, arcs):
    parent = list(range(vertices))

    def find(vertex):
        while parent[vertex] != vertex:
            parent[vertex] = parent[parent[vertex]]
            vertex = parent[vertex]
        return vertex

    for tail, head in arcs:
        parent[find(tail)] = find(head)
    return Counter(map(find, range(vertices)))


def breadth_first(vertices, arcs, source):
    """How many vertices each level holds."""
    neighbours = [[] for _ in range(vertices)]
    for tail, head in arcs:
        neighbours[tail].append(head)
    seen, level, sizes = {source}, [source], []
    while level:
        sizes.append(len(level))
        following = []
        for vertex in level:
            for neighbour in neighbours[vertex]:
                if neighbour not in seen:
                    seen.add(neighbour)
                    following.append(neighbour)
        level = following
    return sizes


def main():
    for path in sys.argv[1:]:
        vertices, arcs = read(path)
        weak = components(vertices, arcs)
        degrees = Counter(tail for tail, _ in arcs)
        source = max(range(vertices), key=lambda vertex: (degrees[vertex], -vertex))
        sizes = breadth_first(vertices, arcs, source)
        print(path)
        print(f"  vertices {vertices}, arcs {len(arcs)},"
              f" self-loops {sum(tail == head for tail, head in arcs)}")
        print(f"  weak components {len(weak)}, largest {max(weak.values())}")
        print(f"  from {source} (degree {degrees[source]}):"
              f" reached {sum(sizes)}, max level {len(sizes) - 1}")
        print(f"  vertices by level {sizes if len(sizes) < 40 else '...'}")


if __name__ == "__main__":
    main()
