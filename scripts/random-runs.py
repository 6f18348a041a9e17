#!/usr/bin/env python3
"""Runs the command on small random graphs with random options, and has every answer verified.

    scripts/random-runs.py MILLSTREAM SECONDS DEVICES... [--seed N]

such as: scripts/random-runs.py target/debug/millstream 300 host:1 host:3 host:8
or, by scripts/emulate.sh: scripts/emulate.sh scripts/random-runs.py ... cuda:0 cuda:0-2 cuda:0x4

Runs that the command refuses, with exit code 2, as options have no meaning together, are counted apart, and
so are ranks that did not converge but are verified.
Prints each failure with a copy of its graph, and ends with 1 if there was one.
"""
import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Of runs that have not failed, each counted.
ANSWERS = ["verified", "not converged", "refused"]
# What each algorithm may be given: a list of alternatives for each option, None for leaving it out.
WORKLIST = {
    "--routing": [None, None, "ring", "direct"],
    "--packet-bytes": [None, None, None, "64", "1024"],
    "--buffers": [None, None, None, "1", "5"],
    "--no-halo-filter": [None, None, None, True],
}
COMMON = {
    "--symmetrize": [None, True, True],
    "--dedupe": [None] * 5 + [True],
    "--drop-self-loops": [None] * 5 + [True],
    "--transpose": [None] * 5 + [True],
    "--partitioner": [None, "blocks", "edges", "random", "regions"],
}
SEARCH = {
    "--source": [None, "center", "0", "0,0"],
    "--delta": [None] * 5 + ["1", "3", "64"],
}
OPTIONS = {
    "bfs": SEARCH
    | WORKLIST
    | {
        "--algorithm": [None, "asynchronous", "level-synchronous", "near-far"],
        "--depth-limit": [None] * 4 + ["0", "7"],
        "--no-layouts": [None] * 5 + [True],
    },
    "sssp": SEARCH
    | WORKLIST
    | {
        "--algorithm": [None, "asynchronous", "stepping", "near-far"],
        "--cutoff": [None] * 4 + ["0", "33"],
    },
    "cc": {"--streamed": [None, None, True]},
    "pagerank": WORKLIST
    | {
        "--algorithm": [None, "push", "pull"],
        "--weighted": [None, None, True],
        "--unnormalized": [None, None, True],
        "--tolerance": [None, None, "1e-2", "1e-4", "1e-9"],
        "--personalize": [None, None, "0"],
    },
}


def some_arcs(vertices):
    """The arcs of a graph of one of several kinds."""
    kind = random.choice(["random", "chain", "grid", "grid", "star", "hubs", "cliques"])
    if kind == "random":
        ends = range(random.randrange(4 * vertices + 1))
        return [(random.randrange(vertices), random.randrange(vertices)) for _ in ends]
    if kind == "chain":
        return [(at, at + 1) for at in range(vertices - 1)]
    if kind == "grid":
        width = max(1, int(vertices**0.5))
        right = [(at, at + 1) for at in range(vertices - 1) if (at + 1) % width]
        return right + [(at, at + width) for at in range(vertices - width)]
    if kind == "star":
        return [(0, at) for at in range(vertices)]
    if kind == "hubs":
        ends = [(hub, at) for hub in range(min(3, vertices)) for at in range(vertices)]
        return [end if random.random() < 0.6 else end[::-1] for end in ends]
    size = min(vertices // 2, 12)
    pairs = [(one, other) for one in range(size) for other in range(size)]
    path = [(at, at + 1) for at in range(vertices - 1)]
    return pairs + path + [(vertices - 1 - one, vertices - 1 - other) for one, other in pairs]


def write_graph(path):
    """A weighted edge list, with what makes graphs awkward now and then."""
    vertices = random.choice([1, 2, 3, 17, 130, 700, 2500])
    ids = list(range(vertices))
    if random.random() < 0.5:
        random.shuffle(ids)
    arcs = some_arcs(vertices)
    if arcs and random.random() < 0.3:
        arcs += random.choices(arcs, k=5)
    if random.random() < 0.3:
        arcs += [(at, at) for at in range(0, vertices, 3)]
    # The last vertex is there even without neighbours.
    arcs.append((vertices - 1, vertices - 1))
    largest = random.choice([9, 20, 10**6])
    weights = {
        "integers": lambda: random.randint(1, largest),
        "some zero": lambda: random.randrange(3),
        "reals": lambda: random.uniform(0.01, 9.0),
    }
    weight = random.choice(list(weights.values()))
    with open(path, "w") as file:
        file.writelines(f"{ids[one]} {ids[other]} {weight()}\n" for one, other in arcs)


def some_options(algorithm):
    """Options of an algorithm, without most of those that have no meaning together."""
    chosen = {option: random.choice(values) for option, values in OPTIONS[algorithm].items()}
    common = {option: random.choice(values) for option, values in COMMON.items()}
    if chosen.get("--algorithm") not in [None, "asynchronous", "push"]:
        chosen = {option: value for option, value in chosen.items() if option not in WORKLIST}
    if chosen.get("--algorithm") or any(chosen.get(option) for option in ["--delta", *WORKLIST]):
        chosen.pop("--no-layouts", None)
    if algorithm == "pagerank":
        chosen.pop("--no-halo-filter", None)
    if chosen.get("--streamed"):
        del common["--partitioner"]
    return common | chosen


def some_command(program, graph, devices):
    algorithm = random.choice(list(OPTIONS))
    command = [program, algorithm, graph, "--devices", random.choice(devices), "--verify", "--json"]
    for option, value in some_options(algorithm).items():
        if value is not None:
            command += [option] if value is True else [option, value]
    return command


def answer(command):
    """One of the answers above, or what has gone wrong."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return "no end after 300 s"
    if run.returncode == 2:
        return "refused"
    try:
        report = json.loads(run.stdout)
    except ValueError:
        report = {}
    # An answer that is not verified has exit code 3, too.
    if report.get("verified") is True and run.returncode == 0:
        return "verified"
    if report.get("verified") is True and run.returncode == 3 and report.get("converged") is False:
        return "not converged"
    return f"exit code {run.returncode}: {run.stderr}{run.stdout}"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("program")
    parser.add_argument("seconds", type=float)
    parser.add_argument("devices", nargs="+")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    random.seed(given.seed)
    folder = Path(tempfile.mkdtemp(prefix="random-runs-"))
    counts = dict.fromkeys(ANSWERS, 0)
    failures, end = 0, time.monotonic() + given.seconds
    graph = folder / "graph.wel"
    while time.monotonic() < end:
        write_graph(graph)
        for _ in range(6):
            command = some_command(given.program, str(graph), given.devices)
            said = answer(command)
            if said in counts:
                counts[said] += 1
                continue
            failures += 1
            command[2] = str(shutil.copy(graph, folder / f"failure-{failures}.wel"))
            print(*command, said, sep=" ", flush=True)
    print(", ".join(f"{count} {said}" for said, count in counts.items()), f"and {failures} failed")
    if not failures:
        shutil.rmtree(folder)
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
