"""The checkpoint server of the FastMCP tutorial, made again from its description, faults and all.

Streamable HTTP on http://127.0.0.1:PORT/mcp with FastMCP 2.11.3. The tool keeps its step in SQLite under the client id,
its own name and its arguments; calling it again with the same three goes on from there, or brings the finished result
at once. What it does wrong is kept on purpose, because real servers of this kind do it:

- no event store: no event has an id, so a broken stream can't be picked up again;
- `pause_task` only writes a word that the loop overwrites at its next batch; the work never stops;
- a call beside a run that still goes on starts a second loop on the same checkpoint;
- a crash leaves the task `running` for ever, an error leaves it `failed` with an empty message;
- the task id is known only from the result and from `list_session_tasks`;
- rows and checkpoint are written in two transactions: a crash between them writes that batch twice.

    python checkpoint_server.py --port PORT [--journal FILE]

The journal is the driver's own record: `started RUN TASK FROM`, `batch RUN N`, `ended RUN`, `stopped RUN`, flushed at
once. Environment:
    CHECKPOINT_DB           the database file (default checkpoints.db in the working directory)
    CHECKPOINT_PACE_MS      the time of one batch (default 1000)
    CHECKPOINT_GAP_MS       a pause between the two transactions (default 0), to hit the window on purpose
    CHECKPOINT_FAIL_AT      raise an error without words before the batch that begins at this record, once per process
    CHECKPOINT_PAUSE_WORKS  1: take the pause fault out; the call then returns `paused` before its next batch
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import itertools
import json
import os
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastmcp import Context, FastMCP

TOOL = "resumable_data_processing"
SCHEMA = """
create table if not exists checkpoints (
    task_id text primary key, key text not null unique, client_id text not null, tool_name text not null,
    arguments text not null, status text not null, progress integer not null, total integer not null,
    result text, error text, created_at text not null, updated_at text not null);
create table if not exists records (
    id integer primary key, task_id text not null, dataset_name text not null, record integer not null);
"""

server = FastMCP("interop-checkpoint")
runs = itertools.count(1)
failed_already = False
journal: Path | None = None


def setting(name: str, default: str) -> str:
    """One value of the environment."""
    return os.environ.get(f"CHECKPOINT_{name}", default)


def now() -> str:
    """The time as this server writes it."""
    return datetime.now(UTC).isoformat()


def note(line: str) -> None:
    """Tell the driver what really ran."""
    if journal is not None:
        with journal.open("a") as file:
            file.write(line + "\n")


def store() -> sqlite3.Connection:
    """A connection for one transaction; the caller commits and closes."""
    connection = sqlite3.connect(setting("DB", "checkpoints.db"), timeout=10)
    connection.row_factory = sqlite3.Row
    return connection


def write(sql: str, *values: Any) -> None:
    """One statement, one transaction."""
    with closing(store()) as db, db:
        db.execute(sql, values)


def read(sql: str, *values: Any) -> list[dict[str, Any]]:
    """All rows of one query."""
    with closing(store()) as db:
        return [dict(row) for row in db.execute(sql, values)]


@server.tool(name=TOOL)
async def process(
    dataset_name: str,
    ctx: Context,
    total_records: int = 100,
    batch_size: int = 10,
    client_id: str | None = None,
) -> dict[str, Any]:
    """Process a dataset in batches; call again with the same arguments and client_id to go on from the checkpoint."""
    global failed_already
    who = client_id or ctx.session_id
    arguments = json.dumps(
        {"dataset_name": dataset_name, "total_records": total_records, "batch_size": batch_size}, sort_keys=True
    )
    key = hashlib.sha256(f"{who}\n{TOOL}\n{arguments}".encode()).hexdigest()
    found = read("select * from checkpoints where key = ?", key)
    if found and found[0]["status"] == "completed":
        return json.loads(found[0]["result"])
    if found:
        # Fault: whether an older call still runs is not asked.
        task_id, start = found[0]["task_id"], found[0]["progress"]
        write("update checkpoints set status = 'running', updated_at = ? where task_id = ?", now(), task_id)
        await ctx.report_progress(start, total_records)
        await ctx.info(f"Resuming processing from record {start}")
    else:
        task_id, start = f"{TOOL}_{int(time.time())}_{key[:8]}", 0
        write(
            "insert into checkpoints values (?, ?, ?, ?, ?, 'running', 0, ?, null, null, ?, ?)",
            *(task_id, key, who, TOOL, arguments, total_records, now(), now()),
        )
        await ctx.info(f"Starting processing of {dataset_name}")

    run = next(runs)
    note(f"started {run} {task_id} {start}")
    finished = False
    try:
        for first in range(start, total_records, batch_size):
            if setting("PAUSE_WORKS", "") == "1":
                status = read("select status from checkpoints where task_id = ?", task_id)[0]["status"]
                if status == "paused":
                    finished = True
                    return {"status": "paused", "task_id": task_id, "records_processed": first}
            if setting("FAIL_AT", "") == str(first) and not failed_already:
                failed_already = True
                raise RuntimeError
            await asyncio.sleep(int(setting("PACE_MS", "1000")) / 1000)  # sleep: the work of a batch
            done = min(first + batch_size, total_records)
            with closing(store()) as db, db:
                db.executemany(
                    "insert into records (task_id, dataset_name, record) values (?, ?, ?)",
                    [(task_id, dataset_name, record) for record in range(first + 1, done + 1)],
                )
            # Fault: a crash here leaves rows that the checkpoint does not know.
            await asyncio.sleep(int(setting("GAP_MS", "0")) / 1000)  # sleep: the width of that window
            # Fault: `paused` is overwritten. (Only the repaired variant leaves it alone.)
            keep = "case when status = 'paused' then status else 'running' end"
            word = keep if setting("PAUSE_WORKS", "") == "1" else "'running'"
            write(
                f"update checkpoints set status = {word}, progress = ?, updated_at = ? where task_id = ?",
                *(done, now(), task_id),
            )
            note(f"batch {run} {done}")
            await ctx.report_progress(done, total_records)
            await ctx.info(f"Processed {done}/{total_records} records")
            await ctx.debug(f"Checkpoint at {done}")
        result = {
            "status": "completed",
            "task_id": task_id,
            "dataset_name": dataset_name,
            "records_processed": total_records,
            "resumed_from": start,
        }
        write(
            "update checkpoints set status = 'completed', result = ?, updated_at = ? where task_id = ?",
            *(json.dumps(result), now(), task_id),
        )
        finished = True
        return result
    except Exception as error:
        # Fault: many errors have no words; cancellation is no Exception and leaves `running`.
        write(
            "update checkpoints set status = 'failed', error = ?, updated_at = ? where task_id = ?",
            *(str(error), now(), task_id),
        )
        raise
    finally:
        note(f"{'ended' if finished else 'stopped'} {run}")


@server.tool
def pause_task(task_id: str) -> dict[str, Any]:
    """Pause a running task."""
    if not read("select 1 from checkpoints where task_id = ?", task_id):
        return {"success": False, "message": f"Task {task_id} not found"}
    write("update checkpoints set status = 'paused', updated_at = ? where task_id = ?", now(), task_id)
    return {"success": True, "task_id": task_id, "status": "paused"}


@server.tool
def list_session_tasks(client_id: str) -> dict[str, Any]:
    """List the tasks of a client."""
    tasks = read(
        "select task_id, tool_name, status, progress, total, error, created_at, updated_at from checkpoints"
        " where client_id = ? order by created_at",
        client_id,
    )
    return {"client_id": client_id, "total_tasks": len(tasks), "tasks": tasks}


@server.tool
def get_checkpoint_stats() -> dict[str, Any]:
    """Count checkpoints and rows."""
    counts = read("select status, count(*) as count from checkpoints group by status")
    return {
        "by_status": {row["status"]: row["count"] for row in counts},
        "records": read("select count(*) as count from records")[0]["count"],
    }


@server.tool
def get_session_info(ctx: Context) -> dict[str, Any]:
    """Tell who asks."""
    return {"session_id": ctx.session_id, "request_id": ctx.request_id, "client_id": ctx.client_id}


def main() -> None:
    """Serve until killed."""
    global journal
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--journal", type=Path)
    options = parser.parse_args()
    journal = options.journal
    with closing(store()) as db:
        # The driver reads the file while we write.
        db.execute("pragma journal_mode = wal")
        db.executescript(SCHEMA)
    server.run(transport="http", host="127.0.0.1", port=options.port, show_banner=False)


if __name__ == "__main__":
    main()
