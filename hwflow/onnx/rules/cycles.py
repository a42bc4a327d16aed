"""Cycles among the nodes of one scope, in time that is linear in its size."""

from __future__ import annotations

from hwflow.onnx.rules.symbols import START, Table


def find_cycles(table: Table) -> list[list[int]]:
    """Cycles that share no node, as numbers of nodes, each from the writer of a value to a reader of it.

    One of them at least where there are any; breaking those that are found may show others.
    """
    sources = [
        [order for name in node.inputs if (order := table.order.get(name, START)) != START]
        for node in table.nodes
    ]
    alive = _cannot_be_sorted(sources)
    return _walk_backwards(sources, alive)


def _cannot_be_sorted(sources: list[list[int]]) -> list[bool]:
    """Nodes that are in a cycle or behind one."""
    readers: list[list[int]] = [[] for _ in sources]
    for index, found in enumerate(sources):
        for source in found:
            readers[source].append(index)
    missing = [len(found) for found in sources]
    ready = [index for index, count in enumerate(missing) if not count]
    while ready:
        for reader in readers[ready.pop()]:
            missing[reader] -= 1
            if not missing[reader]:
                ready.append(reader)
    return [count > 0 for count in missing]


def _walk_backwards(sources: list[list[int]], alive: list[bool]) -> list[list[int]]:
    """From each such node to one it reads from: the walk ends in a cycle, or in what was walked before."""
    cycles = []
    walk_of = [-1] * len(sources)
    for start, there in enumerate(alive):
        walk, index = [], start
        while there and walk_of[index] < 0:
            walk_of[index] = start
            walk.append(index)
            index = next(source for source in sources[index] if alive[source])
        if walk and walk_of[index] == start:
            cycle = walk[walk.index(index) :][::-1]
            first = cycle.index(min(cycle))
            cycles.append([*cycle[first:], *cycle[:first]])
    return cycles
