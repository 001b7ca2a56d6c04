"""A radio in a process of its own: opens it, then does what lines on its input say.

peer.py NAME '{"lat": 0, "lon": 0}'       then {"do": "advertise", "data": "..."} | {"do": "fetch", "timeout": 1} | ...
"""

import json
import sys
from typing import Any

from vicinal_hw.ble.virtual import VirtualRadio


def main() -> None:
    radio = VirtualRadio(sys.argv[1], **json.loads(sys.argv[2]))
    radio.connect()
    print(json.dumps({"holder": radio.holder}), flush=True)
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        answer: dict[str, Any] = {}
        if request["do"] == "advertise":
            radio.advertise(None if request["data"] is None else bytes.fromhex(request["data"]))
        elif request["do"] == "move":
            radio.move(request["lat"], request["lon"])
        else:
            heard = radio.fetch(request["timeout"])
            answer = {} if heard is None else {"data": heard.advertisement.hex(), "rssi": heard.rssi}
        print(json.dumps(answer), flush=True)
    radio.shut()


if __name__ == "__main__":
    main()
