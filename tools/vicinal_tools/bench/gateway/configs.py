"""The configurations that are measured, and the frame that is an event."""

import json
from collections.abc import Mapping
from pathlib import Path

__all__ = ["FRAME_ID", "bus_to_broker", "gateway", "in_memory"]

FRAME_ID = 12345
_MAPPING = f"""
[[message]]
id = {FRAME_ID}
subject = "Speed"
fields = [
    {{ name = "license_no", bytes = "0..6", type = "string" }},
    {{ name = "rate", bytes = 7, type = "double", unit = "km/h" }},
]
"""
_REQUEST = """
[[request]]
type = "subscribe"
source = "wide"
to = "car"
filter = "subject = 'Speed' AND rate > 30"
"""


def gateway(*services: Mapping[str, object], more: str = "") -> str:
    tables = ["\n".join(["[[service]]", *[f"{key} = {json.dumps(value)}" for key, value in one.items()]])
              for one in services]  # fmt: skip
    return '[gateway]\nname = "bench"\n' + "\n".join(tables) + more


def in_memory() -> str:
    """Two services in memory; what is for the second is not kept on disk."""
    return gateway({"name": "car", "type": "memory"}, {"name": "wide", "type": "memory"}, more=_REQUEST)


def bus_to_broker(folder: Path, channel: str, address: str, store: bool) -> str:
    (folder / "speed.toml").write_text(_MAPPING)
    car = {"name": "car", "type": "cosmic", "interface": "vicinal", "channel": channel, "mapping": "speed.toml"}
    wide = {"name": "wide", "type": "siena", "address": address, "store": store}
    return gateway(car, wide, more=_REQUEST)
