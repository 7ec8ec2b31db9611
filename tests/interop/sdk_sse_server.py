"""The server of `sdk_server.py` on HTTP+SSE of 2024-11-05: one stream for everything, and messages POSTed elsewhere.

    python sdk_sse_server.py --port PORT [--journal FILE]
"""

from __future__ import annotations

from parts import Journal, arguments
from sdk_server import build


def main() -> None:
    """Serve until killed."""
    options = arguments(__doc__ or "")
    server = build(options.port, Journal(options.journal))
    server.settings.sse_path = "/mcp"
    server.run(transport="sse")


if __name__ == "__main__":
    main()
