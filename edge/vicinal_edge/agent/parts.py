"""What an agent hears and speaks with, opened: each part is served in turn, and offers what it hears.

    part.service(now)          everything there is to do; gives when it must be called again, None: whenever
    part.close()

What a bus or a radio says is in outlets.py, which is loaded where there is a [[publish]].

A part that fails raises OSError, and is closed and opened again later (loop.py); the others go on.
"""

from vicinal.errors import VicinalError
from vicinal.event import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from vicinal.cosmic.frame import Frame

    from .ports import BlePort, CanPort, SensorPort

    Offer: TypeAlias = "Callable[[Event, int], None]"

__all__ = ["BlePart", "CanPart", "SensorPart"]


class CanPart:
    """A COSMIC node whose channels are subscribed to and published on, and frames that a mapping knows, both ways."""

    def __init__(self, port: "CanPort", controller: "Any", offer: "Offer", now: int) -> None:
        from vicinal.cosmic.node import Node
        from vicinal_hw.can.device_shell import DeviceShell

        self.controller = controller
        self.mapping = port.mapping
        self.undecodable = 0
        self.node = Node(port.node, port.bitrate)
        self.offer = offer
        self._now = now
        self.shell = DeviceShell(self.node, self)
        self.box: Any = controller  # or, with plain frames to send, what shares it
        self.failed: OSError | None = None  # while something was sent
        for settings in port.channels:
            self.channel(settings).subscribe(self._on_event, now * 1000)

    def channel(self, settings: "Any") -> "Any":
        """etag, class, deadline, validity"""
        from vicinal.cosmic.channels import NrtChannel, SrtChannel

        etag, kind, deadline, validity = settings
        if etag in self.node.channels:
            return self.node.channels[etag]
        return SrtChannel(self.node, etag, deadline, validity) if kind == "srt" else NrtChannel(self.node, etag)

    def _on_event(self, event: Event, tx_node: int, now: int) -> None:
        self.offer(event, self._now)

    def service(self, now: int) -> "int | None":
        self._now = now
        if self.failed is not None:
            raise self.failed
        if self.box is not self.controller:
            self.box.move(now * 1000)
        due = self.shell.service(now * 1000)
        return None if due is None else due // 1000

    def close(self) -> None:
        close = getattr(self.controller, "close", None)
        if close is not None:
            close()

    # The controller, as the shell of the node sees it

    def receive(self) -> "Frame | None":
        frame: Frame | None = self.controller.receive()
        if frame is not None and self.mapping is not None:
            try:
                event = self.mapping.decode(frame)
            except VicinalError:
                self.undecodable += 1
                event = None
            if event is not None:
                self.offer(event, self._now)
        return frame

    def load(self, frame: "Frame") -> None:
        self.box.load(frame)

    def sent(self) -> bool:
        return bool(self.box.sent())

    def abort(self) -> bool:
        return bool(self.box.abort())

    def state(self) -> str:
        return str(self.box.state())

    def recover(self) -> None:
        self.box.recover()


class BlePart:
    """STEAM groups on one radio. The node's clock is the agent's: a member hears, and no hour goes over the air."""

    def __init__(
        self, ports: "list[BlePort]", radio: "Any", sender: int, name: str, position: "Any", offer: "Offer", now: int
    ) -> None:
        from vicinal.steam.node import Node
        from vicinal_hw.ble.device_radio import DeviceShell

        self.radio = radio
        self.node = Node(name, sender)
        self.node.set_position(position[0], position[1], now)
        for port in ports:
            condition = None
            if port.filter is not None:
                from vicinal.filter import Filter

                condition = Filter(port.filter)
            if port.subject is not None:
                self.node.subscribe(port.subject, condition, offer, port.names)
        self.shell = DeviceShell(self.node, radio)

    def service(self, now: int) -> "int | None":
        return self.shell.service(now)

    def close(self) -> None:
        self.radio.close()


class SensorPart:
    """A driver has read(): a number, or of type "own" the parameters in order, None for nothing now."""

    def __init__(self, port: "SensorPort", driver: "Any", offer: "Offer", now: int) -> None:
        self.port = port
        self._driver = driver
        self._offer = offer
        self._due = now

    def service(self, now: int) -> "int | None":
        if now >= self._due:
            # Not `now + every`: readings keep their distance, whatever a turn takes. After a long halt one is enough.
            self._due = max(self._due + self.port.every, now + 1)
            read = self._driver.read()
            if self.port.type != "own":
                read = ((self.port.name, self.port.value(read)),)
            if read is not None:
                self._offer(Event(self.port.subject, read), now)
        return self._due

    def close(self) -> None:
        pass
