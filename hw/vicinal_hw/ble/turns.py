"""When a STEAM node's next advertisement goes to its radio: what every shell does, on a Pi, on a board, in simulations.

    turns = Turns(node, radio.advertise, interval=100)
    again = turns.service(now)            after anything that happened to the node, and at `again` at the latest

The node's rotation moves on with each advertising event, so a radio is given new data once in an interval, and sends
them once:

    service ──▶ advertise(a)           advertise(b)           advertise(None)      nothing to say
                 │ 0..10 ms             │                       │
                 └──a──────────────     └──b────────────────    └────── (silent)
                 ├────── interval ──────┤
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from vicinal.steam.node import Node

__all__ = ["Turns"]


class Turns:
    def __init__(self, node: "Node", advertise: "Callable[[bytes | None], None]", interval: int = 100) -> None:
        """`interval` in ms, as the node was told."""
        self.node = node
        self.interval = interval
        self._advertise = advertise
        self._on_air = False
        self._turn = 0

    def service(self, now: int) -> "int | None":
        """Everything there is to do now; gives when it must be called again at the latest."""
        node = self.node
        timeout = node.next_timeout()
        if timeout is not None and timeout <= now:
            node.handle_timeout(now)
        if now >= self._turn:
            data = node.advertisement(now)
            if data is not None:
                self._on_air = True
                self._turn = now + self.interval
                self._advertise(data)
            elif self._on_air:
                self._on_air = False
                self._advertise(None)
        timeout = node.next_timeout()
        if not self._on_air:
            return timeout
        return self._turn if timeout is None else min(self._turn, timeout)

    @property
    def idle(self) -> bool:
        """Whether the node had nothing to say when it was asked last."""
        return not self._on_air
