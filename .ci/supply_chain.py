#!/usr/bin/env python3
"""Checks what comes into the program against `.deny.toml`: duplicates, forbidden crates, licences and sources.

It does what `cargo deny check bans licenses sources` does with the keys that the file has, in a second; building that tool
takes minutes. A key that it does not know is an error. Crates that only tests need are held to `deny` and to the sources,
as there.

    .ci/supply_chain.py [FILE]
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
# What Cargo writes into the lock file for its default registry.
CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"
KNOWN = {
    "graph": {"targets", "all-features"},
    "licenses": {"allow", "unused-allowed-license"},
    "bans": {"multiple-versions", "wildcards", "skip", "deny"},
    "sources": {"unknown-registry", "unknown-git"},
}
# What the values of these keys have to be; the checks below know no other.
FIXED = {
    ("graph", "all-features"): True,
    ("licenses", "unused-allowed-license"): "deny",
    ("bans", "multiple-versions"): "deny",
    ("bans", "wildcards"): "deny",
    ("sources", "unknown-registry"): "deny",
    ("sources", "unknown-git"): "deny",
}

# A crate as `cargo tree` names it, with its licence.
LINE = re.compile(r"(\S+) v(\S+)((?: \([^)]*\))*)\t(.*)")


class Crate(NamedTuple):
    """A crate of the program."""

    name: str
    version: str
    licence: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    def matches(self, spec: str) -> bool:
        """Whether it is `name` or `name@1.2`; with a part of a version only, the rest may be anything."""
        name, _, version = spec.partition("@")
        return self.name == name and (not version or f"{self.version}.".startswith(f"{version}."))


def tree(target: str, edges: str) -> set[Crate]:
    """The crates for a target, without the program itself. `cargo metadata` would also name those that no feature asks for."""
    command = ["cargo", "tree", "--locked", "--all-features", "--target", target, "--edges", edges]
    command += ["--prefix", "none", "--format", "{p}\t{l}"]
    told = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    crates = set()
    for line in told.splitlines()[1:]:
        if line:
            name, version, _, licence = LINE.fullmatch(line.removesuffix(" (*)")).groups()
            crates.add(Crate(name, version, licence))
    return crates


def is_allowed(expression: str, allowed: set[str], used: set[str]) -> bool:
    """Whether an SPDX expression can be met; what it names of the allowed licences counts as used."""
    words = re.findall(r"[()]|[^\s()/]+|/", expression)
    terms: list[str] = []
    while words:
        word = words.pop(0)
        if word == "WITH":
            terms[-1] += f" WITH {words.pop(0)}"
        else:
            terms.append("OR" if word == "/" else word)
    used.update(allowed.intersection(terms))

    def either() -> bool:
        is_met = both()
        while terms and terms[0] == "OR":
            terms.pop(0)
            is_met = both() or is_met
        return is_met

    def both() -> bool:
        is_met = one()
        while terms and terms[0] == "AND":
            terms.pop(0)
            is_met = one() and is_met
        return is_met

    def one() -> bool:
        term = terms.pop(0) if terms else ""
        if term != "(":
            return term in allowed
        is_met = either()
        return terms[:1] == [")"] and terms.pop(0) == ")" and is_met

    return either() and not terms


def needs(manifest: Path) -> Iterator[tuple[str, str]]:
    """What a manifest asks for, and in which versions."""
    told = tomllib.loads(manifest.read_text())
    for part in [told, *told.get("target", {}).values()]:
        for kind in ("dependencies", "dev-dependencies", "build-dependencies"):
            for name, need in part.get(kind, {}).items():
                yield name, need if isinstance(need, str) else need.get("version", "*")


def check(rules: dict) -> list[str]:
    """What is wrong, in words."""
    wrong = [f"[{part}] is not known here" for part in rules.keys() - KNOWN.keys()]
    for part, keys in KNOWN.items():
        wrong += [f"{part}.{key} is not known here" for key in rules.get(part, {}).keys() - keys]
    for (part, key), value in FIXED.items():
        if rules.get(part, {}).get(key) != value:
            wrong.append(f"{part}.{key} has to be {value!r}")
    if wrong:
        return wrong

    shipped: set[Crate] = set()
    everything: set[Crate] = set()
    for target in rules["graph"]["targets"]:
        shipped |= tree(target, "normal,build")
        everything |= tree(target, "normal,build,dev")

    for package in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]:
        source = package.get("source", "this repository")
        if source != CRATES_IO and package["name"] != "longhaul":
            wrong.append(f"{package['name']} {package['version']} comes from {source}")
    # A crate on crates.io cannot do it, so ours is the only one to look at.
    wrong += [f"{name} may be of any version" for name, need in needs(ROOT / "Cargo.toml") if need == "*"]
    for ban in rules["bans"]["deny"]:
        wrong += [f"{crate} is forbidden: {ban['reason']}" for crate in everything if crate.matches(ban["crate"])]

    skips = [skip["crate"] for skip in rules["bans"]["skip"]]
    useless = [skip for skip in skips if not any(crate.matches(skip) for crate in shipped)]
    wrong += [f"bans.skip names {skip}, which is not there" for skip in useless]
    versions: dict[str, set[str]] = {}
    for crate in shipped:
        if not any(crate.matches(skip) for skip in skips):
            versions.setdefault(crate.name, set()).add(crate.version)
    wrong += [f"{name} is there as {' and '.join(sorted(them))}" for name, them in versions.items() if len(them) > 1]

    allowed: set[str] = set(rules["licenses"]["allow"])
    used: set[str] = set()
    for crate in shipped:
        if not is_allowed(crate.licence, allowed, used):
            wrong.append(f"{crate} is under {crate.licence or 'no licence that it names'}")
    wrong += [f"licenses.allow names {licence}, which nothing is under" for licence in allowed - used]
    return wrong


def main() -> int:
    """Print what is wrong; the exit code says whether anything is."""
    file = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / ".deny.toml")
    wrong = check(tomllib.loads(file.read_text()))
    for line in sorted(wrong):
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
