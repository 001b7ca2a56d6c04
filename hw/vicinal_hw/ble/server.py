"""The process that holds a virtual radio (see _holder.py).

    python -m vicinal_hw.ble.server NAME [--seed 1] [--loss 0.1] [--exponent 2.7] [--stepped] [--stay]

Who opens `VirtualRadio(NAME)` first starts it in the background (--detach). Where VICINAL_BLE_RECORD names a file, what
radios with a label hear is written there (_host.py).
"""

import argparse
import os
import sys
import time
from pathlib import Path

from vicinal.errors import VicinalError

from .._holder import run, socket_of
from ._host import Host
from .physics import Model

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    usual = Model()
    parser = argparse.ArgumentParser(prog="vicinal_hw.ble.server", description="holds a virtual radio")
    parser.add_argument("name")
    parser.add_argument("--seed", type=int, default=0, help="of chance: delays, phases and losses")
    parser.add_argument("--loss", type=float, default=usual.loss, help="probability that a PDU is not heard")
    parser.add_argument("--exponent", type=float, default=usual.exponent, help="of the path loss: 2 is free space")
    parser.add_argument("--stepped", action="store_true", help="time moves only when a client says so")
    parser.add_argument("--stay", action="store_true", help="do not end with the last client")
    parser.add_argument("--detach", action="store_true", help="go on in the background when ready")
    options = parser.parse_args(arguments)
    label = f"radio {options.name!r}"
    model = Model(options.exponent, usual.sensitivity, usual.capture, options.loss)
    try:
        path = socket_of("ble", options.name)
        record = os.environ.get("VICINAL_BLE_RECORD")
        clock = None if options.stepped else time.monotonic_ns
        host = Host(options.seed, model, clock, Path(record).absolute() if record else None)
    except (ValueError, OSError, VicinalError) as error:
        print(f"{label}: {error}", file=sys.stderr)
        return 2
    return run(label, path, host, options.stay, options.detach)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
