"""The process that holds a virtual bus (see _holder.py).

    python -m vicinal_hw.can.server NAME [--bitrate 500000] [--stepped] [--stay]

Who opens `can.Bus(interface="vicinal", channel=NAME)` first starts it in the background (--detach).
"""

import argparse
import sys
import time

from vicinal.errors import VicinalError

from .._holder import ALREADY, run
from ._host import Host
from ._records import socket_of

__all__ = ["ALREADY", "DEFAULT_BITRATE", "main"]

DEFAULT_BITRATE = 500_000


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="vicinal_hw.can.server", description="holds a virtual CAN bus")
    parser.add_argument("name")
    parser.add_argument("--bitrate", type=int, default=DEFAULT_BITRATE)
    parser.add_argument("--stepped", action="store_true", help="time moves only when a client says so")
    parser.add_argument("--stay", action="store_true", help="do not end with the last client")
    parser.add_argument("--detach", action="store_true", help="go on in the background when ready")
    options = parser.parse_args(arguments)
    label = f"can bus {options.name!r}"
    try:
        path = socket_of(options.name)
        host = Host(options.bitrate, None if options.stepped else time.monotonic_ns)
    except (ValueError, OSError, VicinalError) as error:
        print(f"{label}: {error}", file=sys.stderr)
        return 2
    return run(label, path, host, options.stay, options.detach)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
