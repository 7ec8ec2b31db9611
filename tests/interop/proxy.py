"""A small TCP proxy whose network breaks on command.

    python3 proxy.py --to PORT [--cut-seconds S] [--record FILE] [--hide WORD]...

Listens on a free port of 127.0.0.1 and forwards to PORT there. The first line on stdout is `listening PORT`. It obeys
one command a line on stdin and answers each with a line on stdout:

    cut S    reset every connection and refuse new ones for S seconds: `cut N` (connections hit), then `back`
    hole S   swallow every byte of the connections that exist, for ever and without closing them, and keep new ones
             waiting for S seconds: `hole N`, then `back`. This is what a dead Wi-Fi or a lost NAT entry looks like.
    conflict S  answer every GET with 409 for S seconds, as a server does that believes in an older connection:
             `conflict 0`
    count    `count N`: connections accepted since the start

--record keeps every byte that went from there to a client: what was never sent was not lost on the way.

--hide makes a word of the client's requests unreadable for the server, such as `last-event-id`.

SIGUSR1 is `cut` with --cut-seconds. The end of stdin ends the proxy, so that it never outlives its driver.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import re
import signal
import socket
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import BinaryIO


class Proxy:
    """All state: the listener, the living connections, and whether the network is up."""

    def __init__(self, target: int, record: BinaryIO | None, hidden: list[str]) -> None:
        self.target = target
        self.record = record
        words = "|".join(re.escape(word) for word in hidden)
        self.hidden = re.compile(words.encode(), re.IGNORECASE) if hidden else None
        self.port = 0
        self.accepted = 0
        self.server: asyncio.Server | None = None
        self.up = asyncio.Event()
        self.up.set()
        # Until when a GET is answered with 409.
        self.conflict_until = 0.0
        # Each connection has a flag of its own: set means that its bytes vanish from now on.
        self.live: dict[asyncio.Task[None], tuple[asyncio.Event, list[asyncio.StreamWriter]]] = {}
        self.outages: set[asyncio.Task[None]] = set()

    async def listen(self) -> None:
        """Open the port; the same one again after a cut."""
        while True:
            try:
                self.server = await asyncio.start_server(self.accept, "127.0.0.1", self.port, reuse_address=True)
                break
            except OSError as error:
                # Another program may use the port for a connection of its own. Clients know this address, so keep trying.
                if error.errno != errno.EADDRINUSE or self.port == 0:
                    raise
                await asyncio.sleep(0.05)  # sleep: the system does not say when a port is free
        self.port = self.server.sockets[0].getsockname()[1]

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its first byte to its last."""
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None
        dead, writers = asyncio.Event(), [writer]
        self.live[task] = (dead, writers)
        try:
            await self.up.wait()
            first = await reader.read(65536) if asyncio.get_running_loop().time() < self.conflict_until else b""
            if first.startswith(b"GET "):
                writer.write(b"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                await writer.drain()
                writer.close()
                return
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self.target)
            writers.append(to_writer)
            to_writer.write(first)
            ends = [
                asyncio.ensure_future(pump(reader, to_writer, dead, None, self.hidden)),
                asyncio.ensure_future(pump(to_reader, writer, dead, self.record, None)),
            ]
            try:
                # One side closing closes both: HTTP/1.1 needs no half-open connections.
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for end in ends:
                    end.cancel()
            for open_writer in writers:
                open_writer.close()
        except (OSError, asyncio.CancelledError):
            # The server is away, or a cut hit us: a reset says so at once.
            for open_writer in writers:
                reset(open_writer)
        finally:
            self.live.pop(task, None)

    async def cut(self, seconds: float) -> None:
        """Reset everything, refuse for a while, listen again."""
        assert self.server is not None
        self.server.close()
        hit = list(self.live.items())
        for task, (_, writers) in hit:
            for writer in writers:
                reset(writer)
            task.cancel()
        say(f"cut {len(hit)}")
        await asyncio.sleep(seconds)  # sleep: the length of the fault
        await self.listen()
        say("back")

    async def hole(self, seconds: float) -> None:
        """Let everything that exists hang for ever, and what comes new for a while."""
        self.up.clear()
        for dead, _ in self.live.values():
            dead.set()
        say(f"hole {len(self.live)}")
        await asyncio.sleep(seconds)  # sleep: the length of the fault
        self.up.set()
        say("back")

    def start(self, outage: Coroutine[None, None, None]) -> None:
        """Run an outage beside the connections."""
        task = asyncio.ensure_future(outage)
        self.outages.add(task)
        task.add_done_callback(self.outages.discard)

    def obey(self, line: str) -> None:
        """One command."""
        match line.split():
            case ["cut", seconds]:
                self.start(self.cut(float(seconds)))
            case ["hole", seconds]:
                self.start(self.hole(float(seconds)))
            case ["conflict", seconds]:
                self.conflict_until = asyncio.get_running_loop().time() + float(seconds)
                say("conflict 0")
            case ["count"]:
                say(f"count {self.accepted}")
            case _:
                say(f"unknown {line!r}")


async def pump(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    dead: asyncio.Event,
    record: BinaryIO | None,
    hidden: re.Pattern[bytes] | None,
) -> None:
    """Copy bytes until the end; once the connection is dead, read and drop, and never end."""
    while chunk := await reader.read(65536):
        if dead.is_set():
            continue
        if hidden is not None:
            # As long as before, or the length of the body would be wrong. Each request comes in one piece here.
            chunk = hidden.sub(lambda word: b"x" * len(word[0]), chunk)
        if record is not None:
            record.write(chunk)
        writer.write(chunk)
        await writer.drain()
    if dead.is_set():
        await asyncio.Event().wait()


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST, so that the peer sees a broken connection and not a clean end."""
    sock = writer.get_extra_info("socket")
    try:
        if sock is not None and sock.fileno() >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    except OSError:
        pass
    writer.transport.abort()


def say(line: str) -> None:
    """Answer the driver; it may be gone."""
    try:
        print(line, flush=True)
    except BrokenPipeError:
        pass


async def main() -> None:
    """Serve until stdin ends."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=int, required=True)
    parser.add_argument("--cut-seconds", type=float, default=5.0)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--hide", action="append", default=[])
    options = parser.parse_args()
    # Unbuffered: it is read while we run.
    record = options.record.open("wb", buffering=0) if options.record else None
    proxy = Proxy(options.to, record, options.hide)
    await proxy.listen()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, lambda: proxy.obey(f"cut {options.cut_seconds}"))
    say(f"listening {proxy.port}")
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        proxy.obey(line.decode().strip())


if __name__ == "__main__":
    asyncio.run(main())
