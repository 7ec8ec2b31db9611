"""The servers: how each is installed at its pinned versions, and the command that runs it.

Everything lands below the cache directory, beside a stamp of what it was made from; it is made again only when that
changes. Needs a package index for pip, npm or cargo then, which are used as the machine has them configured.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from threading import Lock

from driver import HERE

# A cold build of everything on a busy two-core machine, once another cargo has let go of the build directory.
INSTALL_SECONDS = 900.0
LOCKS: defaultdict[Path, Lock] = defaultdict(Lock)


class NotInstalled(Exception):
    """A server could not be installed; the text says why, in words."""


def tool(name: str, *command: str | Path, where: Path | None = None) -> None:
    """Run an installer; what it says is shown only where it fails."""
    try:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=where,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=INSTALL_SECONDS,
        )
    except FileNotFoundError:
        raise NotInstalled(f"{name} is not on this machine") from None
    except subprocess.TimeoutExpired:
        raise NotInstalled(
            f"{name} did not end within {INSTALL_SECONDS:.0f} s: is its package registry there?"
        ) from None
    if done.returncode != 0:
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        wrong = [
            line for line in lines if re.search(r"(?i)\berror\b.*\w{4}|could not|timed out|connection broken", line)
        ]
        # The cause comes first, what came of it last.
        said = " / ".join(line[:240] for line in dict.fromkeys((wrong or lines)[:1] + (wrong or lines)[-1:]))
        raise NotInstalled(
            f"{name} ended with {done.returncode}; it needs its package registry over the network. It said: {said}"
        )


def made_from(place: Path, sources: list[Path], make: Callable[[], None]) -> None:
    """Make it unless it was made from exactly these files before."""
    digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()
    stamp = place / "made-from.sha256"
    # Two servers may share a place and be asked for at the same time.
    with LOCKS[place]:
        if stamp.exists() and stamp.read_text() == digest:
            return
        shutil.rmtree(place, ignore_errors=True)
        print(f"installing {place.name} ...", file=sys.stderr, flush=True)
        make()
        stamp.write_text(digest)


def python(name: str, packages: str = "") -> Callable[[Path], list[str]]:
    """A server in the virtual environment of its packages, which are called as itself unless another name is given."""
    packages = packages or name
    requirements = HERE / f"requirements-{packages}.txt"

    def install(cache: Path) -> list[str]:
        place = cache / f"venv-{packages}"

        def make() -> None:
            # Python's own pip installs into other environments too, and a pip of their own takes seconds each.
            own_pip = importlib.util.find_spec("pip") is None
            tool("python -m venv", sys.executable, "-m", "venv", *[] if own_pip else ["--without-pip"], place)
            pip = [place / "bin/python", "-m", "pip"]
            if not own_pip:
                pip = [sys.executable, "-m", "pip", "--python", place / "bin/python"]
            flags = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-compile"]
            # A server compiles what it imports when it first starts, which is little of what is installed.
            tool("pip", *pip, "install", *flags, "-r", requirements)

        made_from(place, [requirements], make)
        return [str(place / "bin/python"), str(HERE / f"{name}_server.py")]

    return install


def node(name: str, script: str, *words: str) -> Callable[[Path], list[str]]:
    """A server on Node; its own script runs from beside the packages, where Node looks for them."""
    source = HERE / f"node_{name}"
    lock = [source / "package.json", source / "package-lock.json"]

    def install(cache: Path) -> list[str]:
        place = cache / f"node-{name}"

        def make() -> None:
            place.mkdir(parents=True)
            for file in lock:
                shutil.copy(file, place)
            tool("npm", "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", where=place)

        made_from(place, lock, make)
        for file in [HERE / "journal.mjs", *source.glob("*.mjs")]:
            shutil.copy(file, place)
        return ["node", str(place / script), *words]

    return install


def example(name: str) -> str:
    """A program on the Rust SDK: an example of longhaul's package. cargo itself knows whether there is anything to do."""
    print(f"building {name} ...", file=sys.stderr, flush=True)
    root = HERE.parent.parent
    tool("cargo", "cargo", "build", "--quiet", "--locked", "--example", name, where=root)
    return str(root / "target/debug/examples" / name)


def rust(_: Path) -> list[str]:
    """The server on the Rust SDK."""
    return [example("interop-rmcp-server")]


def rust_with_store(cache: Path) -> list[str]:
    """The same server, with an event store."""
    return [*rust(cache), "--store"]


SERVERS: dict[str, Callable[[Path], list[str]]] = {
    "sdk": python("sdk"),
    "sdk_sse": python("sdk_sse", packages="sdk"),
    "sdk_tasks": python("sdk_tasks", packages="sdk"),
    "checkpoint": python("checkpoint"),
    "sdk2": python("sdk2"),
    "fastmcp4": python("fastmcp4"),
    "rmcp": rust,
    "rmcp_store": rust_with_store,
    "node_sdk1": node("sdk1", "server.mjs"),
    "node_sdk2": node("sdk2", "server.mjs"),
    "everything": node(
        "everything", "node_modules/@modelcontextprotocol/server-everything/dist/index.js", "streamableHttp"
    ),
}


def cache_at(path: Path) -> Path:
    """The cache, made absolute without following links: an environment's python is one, and knows its place by it."""
    cache = Path(os.path.abspath(path))
    cache.mkdir(parents=True, exist_ok=True)
    return cache
