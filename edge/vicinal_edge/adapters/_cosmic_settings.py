"""What a [[service]] of type "cosmic" says, and what such a service can therefore carry. See cosmic.py for the keys."""

from typing import Any

from vicinal.control import SUBJECT as CONTROL
from vicinal.cosmic.binding_standby import MAX_RANK
from vicinal.cosmic.clock import MAX_RANK as MAX_CLOCK_RANK
from vicinal.cosmic.fragments import EVENT_BYTES
from vicinal.cosmic.identifier import MAX_ETAG, MAX_TX_NODE
from vicinal.cosmic.mapping import Mapping, Message
from vicinal.errors import LocalProtocolError
from vicinal.federation.capabilities import ALL_TYPES, Capabilities
from vicinal.tables_cpython import Table

from ..adapter import Refused
from ._cosmic_channels import DAY_MS, FIRST_ETAG, ChannelSettings, read_channels
from ._cosmic_frames import kinds_of

__all__ = ["BITRATE", "CosmicSettings"]

BITRATE = 500_000
QUEUE = 32
"""events that wait for the bus here; more wait above, where their order can still change"""


class CosmicSettings:
    def __init__(self, service: str, table: Table) -> None:
        self.service = service
        self.bus: dict[str, Any] = dict(table.table("options").values)
        self.bus["interface"] = table.take("interface", str, "socketcan")
        self.bus["channel"] = table.take("channel", str, required=True)
        bitrate = table.number("bitrate", None, 1, 1_000_000)
        if bitrate is not None:
            self.bus["bitrate"] = bitrate
        self.bitrate: int = bitrate or BITRATE
        self.tx_node: int | None = table.number("tx_node", None, 0, MAX_TX_NODE - 1)
        self.uid = _uid(table)
        self.broker: bool = table.take("broker", bool, False)
        self.rank: int = table.number("rank", 0, 0, MAX_RANK)
        self.bind: bool = table.take("bind", bool, False)
        self.binding_s: float = table.number("binding_ms", 10_000, 1, DAY_MS) / 1000
        self.bus_off_s: float = table.number("bus_off_ms", 5_000, 1, DAY_MS) / 1000
        self.queue: int = table.number("queue", QUEUE, 1, 128)
        self.validity: int = table.number("validity_ms", 1_000, 1, DAY_MS) * 1000
        self.time_etag: int | None = table.number("time_etag", None, FIRST_ETAG, MAX_ETAG)
        self.time_rank: int | None = table.number("time_rank", None, 0, MAX_CLOCK_RANK)
        self.time_accuracy: int = table.number("time_accuracy_us", 1_000, 1, 1_000_000)
        self.mapping = _mapping(table)
        self.channels = read_channels(table, self.mapping)
        self.binds = self.bind or any(one.etag is None for one in self.channels.values())
        if self.tx_node is None and not self.channels and not self.bind:
            self.tx_node = 0  # plain frames only: nobody sees the number
        self.plain = {one.key: one for one in self.mapping.messages if one.subject not in self.channels}
        """the messages that are frames with their own identifiers, by these"""
        self.identifiers: dict[str, list[int]] = {}
        for key, message in self.plain.items():
            self.identifiers.setdefault(message.subject, []).append(key)
        self.subjects = [*self.channels, *self.identifiers]

    @property
    def title(self) -> str:
        return f"CAN bus {self.bus['interface']} {self.bus['channel']}"

    @property
    def has_names(self) -> bool:
        return self.binds or self.broker or self.tx_node is None

    @property
    def capabilities(self) -> Capabilities:
        whole = self.bind or bool(self.channels)
        bare = bool(self.plain) or any(one.codec is not None for one in self.channels.values())
        sizes = [one.max_bytes for one in self.channels.values()] + [EVENT_BYTES] * self.bind
        return Capabilities(
            max_bytes=0 if self.plain else max(sizes, default=0),
            types=ALL_TYPES if whole else kinds_of(self.mapping),
            # Where some subjects are bare data nothing is promised of all; what has a channel keeps what it has.
            attributes=() if bare else ("*",),
            control=self.bind or CONTROL in self.channels,
            located=True,
            tunnels=True,
        )

    def message(self, subject: str) -> Message | None:
        """Of a subject that goes out as a plain frame."""
        return self.mapping.of_subject(subject) if subject in self.identifiers else None

    def channel(self, subject: str) -> ChannelSettings:
        """Of any other; Refused where there is none."""
        found = self.channels.get(subject)
        if found is None and not self.bind:
            raise Refused(
                f"{self.service} has neither a message nor an event channel of subject {subject!r}; it has {self.known}"
            )
        return found or ChannelSettings(subject)

    @property
    def known(self) -> str:
        names = self.subjects
        return (", ".join(names[:8]) or "none") + (f" and {len(names) - 8} others" if len(names) > 8 else "")

    @property
    def advice(self) -> str:
        """How a SocketCAN interface is brought up."""
        name = self.bus["channel"]
        if self.bus["interface"] != "socketcan":
            return ""
        return f". Is it up? ip link set {name} type can bitrate {self.bitrate} restart-ms 5 && ip link set {name} up"


def _uid(settings: Table) -> bytes | None:
    text = settings.take("uid", str)
    if text is None:
        return None
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != 8 or not any(found):
        settings.fail("uid", f"is {text!r}, want 16 hexadecimal digits, not all 0")
    return found


def _mapping(settings: Table) -> Mapping:
    path = settings.path("mapping")
    by_name = settings.take("value_names", bool, False)
    only = settings.names("only")
    if path is None:
        return Mapping([])
    try:
        if path.suffix.lower() == ".dbc":
            from vicinal_hw.can.dbc import load

            found = load(path, by_name, only=only)
        else:
            from vicinal.cosmic.mapping_toml_cpython import loads

            found = loads(path.read_text(encoding="utf-8"), str(path), by_name)
    except OSError as error:
        settings.fail("mapping", f"is {str(path)!r}: {error.strerror}")
    except (LocalProtocolError, UnicodeDecodeError) as error:
        settings.fail("mapping", f"cannot be read: {error}")
    for subject in only:
        if found.of_subject(subject) is None:
            settings.fail("only", f"has {subject!r}, which is no message of {path.name}")
    return Mapping([one for one in found.messages if one.subject in only]) if only else found
