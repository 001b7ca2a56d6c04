"""The virtual bus as a python-can interface: several processes of one host on one bus with real physics.

    can.Bus(interface="vicinal", channel="car", bitrate=500_000)

A frame is on the bus as long as its bits take, the lowest identifier goes first, and a frame that nobody acknowledges
is repeated until somebody does: with one client alone nothing is ever sent, as on a wire. Errors come as error frames
in SocketCAN's form. In stepped time (`time="stepped"`) nothing moves until a client calls advance().

Options beside python-can's own:

    time                  "real" or "stepped"; like bitrate, the first client decides, and None takes what there is
    receive_own_messages  a sent frame comes back when it was sent and acknowledged (is_rx False): a confirmation
    tx_queue              frames that may wait in front of the controller; 10, as in Linux
    restart               leave bus-off as soon as it happens (restart-ms in Linux); else recover()
    listen_only           neither acknowledge nor send
    bus_errors            an error frame for every error on the bus, not only for changes of state (berr-reporting)

The bus is held by a process of its own (server.py), which starts with the first client and ends with the last.
"""

from typing import Any

import can
from can.typechecking import AutoDetectedConfig, CanFilters

from vicinal.cosmic.frame import Frame
from vicinal.errors import LocalProtocolError

from ._link import BusGone, Link, Refused
from ._records import EXTENDED, FOREVER, OWN, REMOTE, Kind, Record, Refusal, folder, record_of, socket_of
from .controller import State

__all__ = ["VicinalBus"]

FILTERS_MAX = 256
"""more than any controller has; a record says in one byte how many follow"""
SECOND = 1_000_000_000

_REASONS = {
    Refusal.FULL: "the transmit queue is full",
    Refusal.BUS_OFF: "the controller is bus-off: recover() it, or open with restart=True",
    Refusal.LISTEN_ONLY: "this client only listens",
    Refusal.REAL_TIME: "the bus runs in real time: only stepped time is advanced",
    Refusal.BAD: "the bus did not understand",
}
_STATES = {State.PASSIVE: can.BusState.PASSIVE, State.BUS_OFF: can.BusState.ERROR}


class VicinalBus(can.BusABC):
    def __init__(
        self,
        channel: str = "vicinal",
        can_filters: CanFilters | None = None,
        bitrate: int | None = None,
        *,
        time: str | None = None,
        receive_own_messages: bool = False,
        tx_queue: int = 10,
        restart: bool = False,
        listen_only: bool = False,
        bus_errors: bool = False,
        **kwargs: Any,
    ) -> None:
        if kwargs.pop("fd", False):
            raise ValueError("fd=True: the virtual bus has classic frames only")
        if time not in (None, "real", "stepped"):
            raise ValueError(f"time={time!r}: 'real' or 'stepped'")
        options = {
            "own": receive_own_messages,
            "tx_queue": int(tx_queue),
            "restart": restart,
            "listen_only": listen_only,
            "bus_errors": bus_errors,
        }
        rate = None if bitrate is None else int(bitrate)
        try:
            self._link = Link(str(channel), rate, None if time is None else time == "stepped", options)
        except (Refused, OSError) as error:
            raise can.CanInitializationError(f"virtual bus {channel!r}: {error}") from error
        self._closed = False
        self.channel = str(channel)
        self.bitrate = self._link.bitrate
        self.channel_info = f"vicinal {channel!r}, {self.bitrate} bit/s{', stepped' * self._link.stepped}"
        self._can_protocol = can.CanProtocol.CAN_20
        try:
            super().__init__(channel=channel, can_filters=can_filters, **kwargs)
        except BaseException:
            self._closed = True
            self._link.close()
            raise

    # What every python-can bus has

    def send(self, msg: can.Message, timeout: float | None = None) -> None:
        """Puts it into the transmit queue. If that is full: None waits for room, 0 raises at once; stepped time stands
        still meanwhile, so there it always raises."""
        frame = _frame_of(msg)
        patience = float("inf") if timeout is None else max(0.0, timeout)
        value = FOREVER if timeout is None else min(FOREVER, int(patience * SECOND))
        self._ask(record_of(Kind.SEND, frame, value), patience)

    def _recv_internal(self, timeout: float | None) -> tuple[can.Message | None, bool]:
        self._check_open()
        try:
            record = self._link.happening(timeout)
        except BusGone as gone:
            raise self._gone() from gone
        return (None, False) if record is None else (self._message_of(record), True)

    def _apply_filters(self, filters: CanFilters | None) -> None:
        if filters is None:
            self._ask(Record(Kind.FILTER_NONE))
            return
        masks: list[tuple[int, int, bool]] = []
        for wanted in filters:
            number, mask = wanted["can_id"], wanted["can_mask"]
            kinds = [bool(wanted["extended"])] if "extended" in wanted else [False, True]
            for extended in kinds:
                most = 0x1FFFFFFF if extended else 0x7FF
                # An identifier that a standard frame cannot have matches none of them.
                if not number & mask & ~most:
                    masks.append((number & mask & most, mask & most, extended))
        if len(masks) > FILTERS_MAX:
            raise ValueError(f"{len(masks)} acceptance filters, the limit is {FILTERS_MAX}")
        if not masks:
            masks.append((0x7FF, 0x7FF, False))
        for index, (number, mask, extended) in enumerate(masks):
            self._ask(Record(Kind.FILTER, int(extended), len(masks) - 1 - index, 0, number, mask))

    @property
    def state(self) -> can.BusState:
        return _STATES.get(State(self._ask(Record(Kind.STATUS)).state), can.BusState.ACTIVE)

    @state.setter
    def state(self, new_state: can.BusState) -> None:
        if new_state is not can.BusState.ACTIVE:
            raise NotImplementedError("only ACTIVE can be asked for, which ends bus-off; listen_only=True only listens")
        self.recover()

    def fileno(self) -> int:
        return self._link.fileno()

    def shutdown(self) -> None:
        """What is in the transmit queue is still sent."""
        if not self._closed:
            super().shutdown()
            self._closed = True
            self._link.close()

    @staticmethod
    def _detect_available_configs() -> list[AutoDetectedConfig]:
        return [{"interface": "vicinal", "channel": path.stem} for path in sorted(folder().glob("*.sock"))]

    # What this one has beside

    def advance(self, nanoseconds: int) -> int:
        """Stepped time: lets so much pass, and gives the bus's now. All that happens meanwhile can then be received."""
        return self._ask(Record(Kind.ADVANCE, value=nanoseconds), float("inf")).value

    def recover(self) -> None:
        """Ends bus-off, after 128 times 11 recessive bits."""
        self._ask(Record(Kind.RECOVER))

    def counters(self) -> tuple[int, int]:
        """TEC and REC."""
        data = self._ask(Record(Kind.STATUS)).data
        return int.from_bytes(data[:2], "little"), int.from_bytes(data[2:4], "little")

    def queued(self) -> int:
        """Frames of ours that are not sent yet."""
        return int.from_bytes(self._ask(Record(Kind.STATUS)).data[4:], "little")

    def disturb(self, probability: float, seed: int = 0, degree: int | None = None, all_frames: bool = False) -> None:
        """From now on transmissions are destroyed with this probability, a frame at most `degree` times in a row; ours
        or all. 0 ends it."""
        if not 0 <= probability <= 1 or (degree is not None and not 0 <= degree < 255):
            raise ValueError(f"probability {probability} is not in 0 .. 1, or degree {degree} not in 0 .. 254")
        size = 0 if degree is None else degree + 1
        self._ask(Record(Kind.DISTURB, 0 if all_frames else OWN, size, 0, seed, int(probability * (1 << 32))))

    @property
    def server_pid(self) -> int:
        """The process that holds the bus."""
        return self._link.pid

    # Inside

    def _check_open(self) -> None:
        if self._closed:
            raise can.CanOperationError(f"virtual bus {self.channel!r} is shut down")

    def _gone(self) -> can.CanOperationError:
        if self._closed:
            return can.CanOperationError(f"virtual bus {self.channel!r} is shut down")
        text = f"virtual bus {self.channel!r} is gone: process {self._link.pid}, which held it, ended. Open it again"
        log = socket_of(self.channel).with_suffix(".log")
        if log.exists() and log.stat().st_size:
            text += f". Its last words are in {log}"
        return can.CanOperationError(text)

    def _ask(self, record: Record, patience: float = 0.0) -> Record:
        self._check_open()
        try:
            answer = self._link.ask(record, patience)
        except BusGone as gone:
            raise self._gone() from gone
        if answer.kind == Kind.REFUSED:
            raise can.CanOperationError(f"virtual bus {self.channel!r}: {_REASONS[Refusal(answer.size)]}")
        return answer

    def _message_of(self, record: Record) -> can.Message:
        return can.Message(
            timestamp=(self._link.epoch + record.value) / SECOND,
            arbitration_id=record.number,
            is_extended_id=bool(record.flags & EXTENDED),
            is_remote_frame=bool(record.flags & REMOTE),
            is_error_frame=record.kind == Kind.ERROR,
            channel=self.channel,
            dlc=record.size,
            data=b"" if record.flags & REMOTE else record.data[: record.size],
            is_rx=not record.flags & OWN,
        )


def _frame_of(msg: can.Message) -> Frame:
    if msg.is_fd or msg.is_error_frame:
        raise can.CanOperationError(f"the virtual bus sends classic data and remote frames, not {msg}")
    data = bytes(msg.dlc) if msg.is_remote_frame else bytes(msg.data)
    try:
        return Frame(msg.arbitration_id, data, msg.is_extended_id, msg.is_remote_frame)
    except LocalProtocolError as error:
        raise ValueError(str(error)) from error
