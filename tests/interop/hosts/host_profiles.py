"""The hosts of the fault table: the habits that decide what happens to a long call.

They come from the hosts' documentation and source, as far as those are public; `guessed` names what is not known of a
host, where its SDK's own behavior stands in. Limits are scaled (`faults.py`); only whether a host has one is kept here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

# What the TypeScript SDK sends at its own timeout, and after `AbortController.abort()` without a reason.
SDK_TIMEOUT = "McpError: MCP error -32001: Request timed out"
SDK_ABORT = "AbortError: This operation was aborted"


class Sdk(Enum):
    """The official client that a host is scripted on."""

    TYPESCRIPT = "typescript"
    PYTHON = "python"
    RUST = "rmcp"


class Esc(Enum):
    """What longhaul can know of a person's Esc."""

    CLEAR = "the reason names a person"
    UNCLEAR = "the reason may also mean a timeout"
    SILENT = "the host says nothing"


def says(reason: str | None) -> dict[str, Any]:
    """`notifications/cancelled` with this reason; `None` is one without a reason."""
    return {"reason": reason}


@dataclass(frozen=True)
class Profile:
    """One host."""

    # What the table and --only call it, and what it calls itself.
    key: str
    client_name: str
    sdk: Sdk
    version: str
    esc: Esc
    # The notification at each; `None`: the host says nothing.
    at_timeout: dict[str, Any] | None
    at_esc: dict[str, Any] | None
    has_limit: bool = True
    revision: str = "2025-11-25"
    capabilities: dict[str, Any] = field(default_factory=dict)
    progress_token: bool = True
    # Progress makes it wait longer.
    progress_extends: bool = False
    # It kills the server at its own end, without a cancel, instead of closing the server's stdin.
    ends_by_kill: bool = False
    # It starts a server that has died again; otherwise a person restarts the host.
    restarts_server: bool = True
    # The member of `_meta` in which it names each call.
    call_id_key: str | None = None
    guessed: str = ""


PROFILES = [
    Profile(
        "claude-code",
        "claude-code",
        Sdk.TYPESCRIPT,
        "2.1.197",
        Esc.CLEAR,
        at_timeout=says(SDK_TIMEOUT),
        at_esc=says("user-cancel"),
        has_limit=False,
        capabilities={"roots": {}, "elicitation": {}},
        progress_extends=True,
        ends_by_kill=True,
        restarts_server=False,
        call_id_key="claudecode/toolUseId",
    ),
    Profile(
        "claude-ai",
        "claude-ai",
        Sdk.TYPESCRIPT,
        "0.1.0",
        Esc.UNCLEAR,
        at_timeout=says(SDK_TIMEOUT),
        at_esc=says(SDK_ABORT),
        progress_token=False,
        guessed="what it sends at Esc, and that it asks for no progress",
    ),
    Profile(
        "codex",
        "codex-mcp-client",
        Sdk.RUST,
        "0.169.0",
        Esc.UNCLEAR,
        at_timeout=says("MCP request cancelled by caller"),
        at_esc=says("MCP request cancelled by caller"),
        revision="2025-06-18",
        capabilities={"elicitation": {}},
        call_id_key="callId",
    ),
    Profile(
        "vscode",
        "Visual Studio Code",
        Sdk.TYPESCRIPT,
        "1.107.0",
        # The cancel has no reason at all.
        Esc.CLEAR,
        at_timeout=says(SDK_TIMEOUT),
        at_esc=says(None),
        has_limit=False,
        capabilities={"roots": {"listChanged": True}, "sampling": {}, "elicitation": {}},
        guessed="what it would send at a timeout, which it does not have",
    ),
    Profile(
        "gemini",
        "gemini-cli-mcp-client",
        Sdk.PYTHON,
        "0.20.0",
        # It stops waiting, and keeps the request.
        Esc.SILENT,
        at_timeout=says(SDK_TIMEOUT),
        at_esc=None,
    ),
    Profile(
        "goose",
        "goose",
        Sdk.RUST,
        "1.20.0",
        Esc.CLEAR,
        at_timeout=says("timed out"),
        at_esc=says("operation cancelled"),
        revision="2025-03-26",
        capabilities={"roots": {}, "sampling": {}, "elicitation": {}},
    ),
    Profile(
        "zed",
        "Zed",
        Sdk.PYTHON,
        "0.220.0",
        Esc.CLEAR,
        at_timeout=None,
        at_esc=says(None),
        progress_token=False,
    ),
    Profile(
        "opencode",
        "opencode",
        Sdk.TYPESCRIPT,
        "1.18.33",
        Esc.UNCLEAR,
        at_timeout=says("AbortError: The operation was aborted."),
        at_esc=says("AbortError: The operation was aborted."),
        progress_extends=True,
    ),
    Profile(
        "cursor",
        "cursor-vscode",
        Sdk.TYPESCRIPT,
        "1.0.0",
        Esc.UNCLEAR,
        at_timeout=says(SDK_TIMEOUT),
        at_esc=says(SDK_ABORT),
        guessed="everything but its name: the SDK's own behavior",
    ),
]
