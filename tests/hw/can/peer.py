"""The other end of a bus in a process of its own: opens it, then does what lines on its input say.

peer.py '{"interface": "vicinal", "channel": "x"}'       then {"do": "send", ...} | {"do": "recv", "timeout": 1}
"""

import json
import sys
from typing import Any

import can


def main() -> None:
    with can.Bus(**json.loads(sys.argv[1])) as bus:
        print(json.dumps({"ready": True}), flush=True)
        for line in sys.stdin:
            request: dict[str, Any] = json.loads(line)
            answer: dict[str, Any] = {}
            if request["do"] == "send":
                bus.send(message(request))
            else:
                received = bus.recv(request["timeout"])
                answer = {} if received is None else fields(received)
            print(json.dumps(answer), flush=True)


def fields(msg: can.Message) -> dict[str, Any]:
    return {
        "id": msg.arbitration_id,
        "extended": msg.is_extended_id,
        "remote": msg.is_remote_frame,
        "size": msg.dlc,
        "data": bytes(msg.data).hex(),
    }


def message(fields: dict[str, Any]) -> can.Message:
    return can.Message(
        arbitration_id=fields["id"],
        is_extended_id=fields["extended"],
        is_remote_frame=fields["remote"],
        dlc=fields["size"],
        data=None if fields["remote"] else bytes.fromhex(fields["data"]),
    )


if __name__ == "__main__":
    main()
