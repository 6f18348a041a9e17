#!/usr/bin/env python3
"""Writes the dependency graph of Debian's packages, as apt knows them here.

    apt-get update && scripts/debian-dependencies.py datasets

Makes debian-dependencies.el.gz (arcs, 0-based ids) and debian-packages.txt.gz
(line i + 1 is the name of vertex i). datasets/README.md states the rule by which
alternatives and virtual packages become arcs. Same package lists and same date,
same bytes.
"""

import argparse
import datetime
import gzip
import pathlib
import re
import subprocess
import sys

# What is installed on this machine must not count, and no cache may be written.
APT_CACHE = ["apt-cache", "-o", "Dir::State::status=/dev/null",
             "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="]


def apt_cache(command):
    return subprocess.run(APT_CACHE + [command], check=True, capture_output=True,
                          encoding="utf-8").stdout


def suites():
    """The releases that apt knows, which must be Debian's, main, amd64."""
    found = []
    for line in re.findall(r"^\s*release (.*)$", apt_cache("policy"), re.MULTILINE):
        release = dict(field.split("=", 1) for field in line.split(","))
        if release.get("a") == "now":
            continue
        if (release.get("o"), release.get("c"), release.get("b")) != ("Debian", "main", "amd64"):
            sys.exit(f"not Debian main amd64: {line}")
        found.append(f"{release['n']} {release['v']}")
    if not found:
        sys.exit("apt knows no package lists: run apt-get update")
    return sorted(found)


def records(text):
    """The fields of each record, folded lines joined."""
    for record in text.split("\n\n"):
        fields = {}
        for line in re.sub(r"\n[ \t]+", " ", record).splitlines():
            name, _, value = line.partition(":")
            fields[name] = value.strip()
        if "Package" in fields:
            yield fields


def alternatives(clause):
    """Names without version constraint and architecture qualifier."""
    return [re.split(r"[\s:(]", name.strip(), maxsplit=1)[0] for name in clause.split("|")]


def clauses(fields, *names):
    for name in names:
        for clause in fields.get(name, "").split(","):
            if clause.strip():
                yield alternatives(clause)


def resolve(names, ids, providers):
    """The package that a clause stands for, or None."""
    for name in names:
        if name in ids:
            return name
    for name in names:
        if name in providers:
            return providers[name]
    return None


def write(path, lines):
    data = "".join(f"{line}\n" for line in lines).encode("utf-8")
    path.write_bytes(gzip.compress(data, compresslevel=9, mtime=0))


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("--date", default=datetime.datetime.now(datetime.timezone.utc).date())
    options = arguments.parse_args()

    packages = {fields["Package"]: fields for fields in records(apt_cache("dumpavail"))}
    names = sorted(packages)
    ids = {name: vertex for vertex, name in enumerate(names)}
    providers = {}
    for name in names:
        for provided in clauses(packages[name], "Provides"):
            providers.setdefault(provided[0], name)

    arcs, unresolved, loops = set(), 0, 0
    for name in names:
        for clause in clauses(packages[name], "Pre-Depends", "Depends"):
            dependency = resolve(clause, ids, providers)
            if dependency is None:
                unresolved += 1
            elif dependency == name:
                loops += 1
            else:
                arcs.add((ids[name], ids[dependency]))
    if max(map(max, arcs)) != len(names) - 1:
        sys.exit("the last package has no arc: an edge list would lose it")

    header = [
        f"# Dependencies of Debian's packages, {options.date}",
        f"# suites: {'; '.join(suites())} (main, amd64)",
        f"# vertices: {len(names)} arcs: {len(arcs)}",
        f"# clauses without a package: {unresolved}, clauses naming the package itself: {loops}",
    ]
    write(options.folder / "debian-dependencies.el.gz",
          header + [f"{tail} {head}" for tail, head in sorted(arcs)])
    write(options.folder / "debian-packages.txt.gz", names)
    print("\n".join(header))


if __name__ == "__main__":
    main()
