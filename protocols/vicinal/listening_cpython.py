"""What a server says when it cannot listen where it is told to."""

import errno
import os

__all__ = ["cannot_listen"]


def cannot_listen(where: object, error: OSError) -> str:
    """asyncio's own message has the address twice, and no advice."""
    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
    taken = ". Is it running already, or does another program have the port?"
    return f"cannot listen on {where}: {reason}{taken if error.errno == errno.EADDRINUSE else ''}"
