"""Names gateways as fast as it can, until it is killed: `naming.py FOLDER FIRST`. What it prints somebody has heard."""

import sys
from pathlib import Path

from vicinal.federation.provisioning import GatewayHello
from vicinal_cloud.fleet.directory import Fleet


def main() -> None:
    fleet = Fleet(Path(sys.argv[1]))
    number = int(sys.argv[2])
    while True:
        # Each asks twice, some bring a name that another will bring as well.
        for uid in (f"uid-{number}", f"uid-{number // 2}"):
            wanted = f"own-{number % 7}" if number % 5 == 0 else ""
            config = fleet.answer(GatewayHello(uid, wanted, 0, "ok"), 0)
            print(uid, config.name, config.version, flush=True)
        number += 1


main()
