"""The physics of advertising in stepped time: who hears whom, with distance, collisions and loss.

    air = Air(seed=1, model=Model(loss=0.1))
    radio = air.radio("car 7", x=120.0, y=40.0)          metres, in any plane
    radio.on_heard = lambda data, rssi, now: ...
    radio.scan()
    radio.advertise(b"...", interval=100_000)
    air.advance(1_000_000)                               microseconds

No bit is simulated: when an advertising event is over, it is decided for each radio in reach that scans whether it
heard it. Everything is counted, so that for every event and every scanning radio in reach of it

    reached = heard + asleep + busy + collided + lost

`asleep`: it listened on none of the channels at the right time. `busy`: it was sending, or on a secondary channel.
`collided`: another PDU on the channel at the same time was not weaker by Model.capture (a simple capture effect: only
the strongest of the others counts, and when it began does not matter). `lost`: chance. An extended advertisement has to
be heard twice, the pointer and the data, and is counted once.

Chance comes from the seed alone, and what happens at the same time happens in the order in which it was asked for:
every run is the same run. Left out: fading, other users of the band, scan requests, propagation delay.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from random import Random

from vicinal.errors import LimitError, LocalProtocolError

from .physics import (
    ADV_DELAY_MAX,
    AUX_OFFSET,
    GAP,
    POWER_MAX,
    POWER_MIN,
    PRIMARY,
    SECONDARY,
    Model,
    aux_duration,
    legacy_duration,
    pointer_duration,
)
from .radio import Radio

__all__ = ["DEFAULT_POWER", "Air", "Transmission"]

RADIOS_MAX = 20_000  # a city's; a guard against a loop that makes radios
DEFAULT_POWER = 8
"""dBm: what ESP32 modules send with"""


class Transmission:
    """One advertising event: three PDUs, and with extended advertising a fourth."""

    __slots__ = ("aux_begin", "aux_channel", "begin", "data", "ends", "length", "radio", "step")

    def __init__(self, radio: Radio, data: bytes, begin: int, length: int) -> None:
        self.radio = radio
        self.data = data
        self.begin = begin
        self.length = length
        """of the PDU on the primary channels"""
        self.step = length + GAP
        self.ends = begin + 2 * self.step + length
        self.aux_channel = -1
        self.aux_begin = self.ends

    def overlap(self, channel: int, begin: int, end: int) -> bool:
        """Whether it has a PDU on a channel (0, 1, 2 primary, 3 and up secondary) at some time of this."""
        if channel < PRIMARY:
            mine = self.begin + channel * self.step
            return mine < end and mine + self.length > begin
        return channel == self.aux_channel and self.aux_begin < end and self.ends > begin


class Air:
    """`cell` metres is the size of the grid's cells that radios are found by: about the usual reach is best."""

    def __init__(self, seed: int = 0, model: Model | None = None, cell: float | None = None) -> None:
        self.model = model or Model()
        self.model.check()
        self.now = 0
        self.radios: list[Radio] = []
        self.events = 0
        """advertising events sent"""
        self.reached = self.heard = self.asleep = self.busy = self.collided = self.lost = 0
        self._random = Random(seed)
        self._cell = cell or max(1.0, self.model.reach(DEFAULT_POWER))
        self._grid: dict[tuple[int, int], list[Radio]] = {}
        self._moves = 0
        self._due: list[tuple[int, int, Radio, int, Transmission | None, list[tuple[Radio, float]] | None]] = []
        self._count = 0
        self._on_air: list[Transmission] = []
        self._longest = 0

    def radio(self, name: str = "", x: float = 0.0, y: float = 0.0, power: int = DEFAULT_POWER) -> Radio:
        """It neither scans nor advertises yet."""
        if len(self.radios) >= RADIOS_MAX:
            raise LimitError("radios on the air", len(self.radios) + 1, RADIOS_MAX)
        if not POWER_MIN <= power <= POWER_MAX:
            raise LimitError("transmit power", f"{power} dBm", f"{POWER_MIN} .. {POWER_MAX}")
        made = Radio(self, name or f"radio {len(self.radios)}", x, y, power, self._random.randrange(1 << 24))
        self.radios.append(made)
        made.cell = self._cell_of(x, y)
        self._moves += 1
        return made

    def remove(self, radio: Radio) -> None:
        radio.advertise(None)
        radio.stop_scan()
        self.radios.remove(radio)
        self._moves += 1

    # Time

    def next_event(self) -> int | None:
        """When something happens next, if nobody starts something before; None: never."""
        return self._due[0][0] if self._due else None

    def advance(self, to: int) -> None:
        """Lets time pass, calling back on the way. What is due at `to` happens."""
        while self.step(to):
            pass

    def step(self, limit: int) -> bool:
        """Lets time pass until something has happened, but not beyond `limit`. False: nothing did until then."""
        if limit < self.now:
            raise LocalProtocolError(f"time {limit} is before the air's now {self.now}")
        if not self._due or self._due[0][0] > limit:
            self.now = limit
            return False
        self.now, _, radio, generation, transmission, pointed = heappop(self._due)
        if transmission is None:
            if generation == radio.generation:
                self._begin(radio)
        elif pointed is not None:
            self._end_aux(transmission, pointed)
        elif transmission.aux_channel >= 0:
            self._end_pointers(transmission)
        else:
            self._end_legacy(transmission)
        return True

    def _at(self, when: int, radio: Radio, transmission: Transmission | None = None,
            pointed: list[tuple[Radio, float]] | None = None) -> None:  # fmt: skip
        self._count += 1
        heappush(self._due, (when, self._count, radio, radio.generation, transmission, pointed))

    # Sending

    def _start(self, radio: Radio) -> None:
        self._at(self.now + self._random.randrange(ADV_DELAY_MAX + 1), radio)

    def _begin(self, radio: Radio) -> None:
        assert radio.data is not None
        now, data = self.now, radio.data
        if radio.sending is not None and radio.sending.ends > now:
            self._at(radio.sending.ends + GAP, radio)  # the event of the data before is still going on
            return
        if radio.extended:
            sent = Transmission(radio, data, now, pointer_duration())
            self._at(sent.ends, radio, sent)
            sent.aux_begin = sent.ends + AUX_OFFSET
            sent.ends = sent.aux_begin + aux_duration(len(data))
            sent.aux_channel = PRIMARY + self._random.randrange(SECONDARY)
        else:
            sent = Transmission(radio, data, now, legacy_duration(len(data)))
            self._at(sent.ends, radio, sent)
        radio.sending = sent
        radio.sent += 1
        self.events += 1
        self._longest = max(self._longest, sent.ends - now)
        self._on_air.append(sent)
        if self._on_air[0].ends < now - self._longest:
            # What ended before the oldest that is still going on can have begun collides with nothing any more.
            self._on_air = [other for other in self._on_air if other.ends >= now - self._longest]
        self._at(now + radio.interval + self._random.randrange(ADV_DELAY_MAX + 1), radio)
        if radio.on_sent is not None:
            radio.on_sent()

    # Hearing

    def _others(self, sent: Transmission) -> list[Transmission]:
        """What is on the air at the same time, and near enough to matter to somebody who may hear this one."""
        begin, end, radio = sent.begin, sent.ends, sent.radio
        x, y, reach = radio.x, radio.y, radio.reach
        found = []
        for other in self._on_air:
            if other.begin < end and other.ends > begin and other is not sent:
                far = reach + other.radio.disturbs
                dx, dy = other.radio.x - x, other.radio.y - y
                if dx * dx + dy * dy <= far * far:
                    found.append(other)
        return found

    def _end_legacy(self, sent: Transmission) -> None:
        data, now = sent.data, self.now
        for receiver, strength in self._heard_by(sent):
            self.heard += 1
            if receiver.on_heard is not None:
                receiver.on_heard(data, round(strength), now)

    def _end_pointers(self, sent: Transmission) -> None:
        pointed = list(self._heard_by(sent))
        if not pointed:
            return
        for receiver, _ in pointed:
            receiver.away_from, receiver.away_until = sent.aux_begin, sent.ends
        self._at(sent.ends, sent.radio, sent, pointed)

    def _end_aux(self, sent: Transmission, pointed: list[tuple[Radio, float]]) -> None:
        others = self._others(sent)
        chance, loss = self._random.random, self.model.loss
        for receiver, strength in pointed:
            own = receiver.sending
            if not receiver.scanning or (own is not None and own.begin < sent.ends and own.ends > sent.aux_begin):
                self.busy += 1
            elif others and self._is_covered(sent.aux_channel, sent.aux_begin, sent.ends, others, receiver, strength):
                self.collided += 1
            elif loss and chance() < loss:
                self.lost += 1
            else:
                self.heard += 1
                if receiver.on_heard is not None:
                    receiver.on_heard(sent.data, round(strength), self.now)

    def _heard_by(self, sent: Transmission) -> Iterator[tuple[Radio, float]]:
        """The radios that heard one of the PDUs on the primary channels."""
        receivers = self._neighbours(sent.radio)
        if not receivers:
            return
        others = self._others(sent)
        chance, loss = self._random.random, self.model.loss
        begin, length, step = sent.begin, sent.length, sent.step
        last = begin + 2 * step + length
        for receiver, strength in receivers:
            self.reached += 1
            slot, into = divmod(begin + receiver.phase, receiver.scan_interval)
            if into + last - begin <= receiver.window:  # the usual case: on one channel for the whole event
                channels: tuple[int, ...] = (slot % PRIMARY,)
            else:
                channels = tuple(
                    channel
                    for channel in range(PRIMARY)
                    if receiver.listens(channel, begin + channel * step, begin + channel * step + length)
                )
                if not channels:
                    self.asleep += 1
                    continue
            heard, reason = False, 0
            for channel in channels:  # two where the scanner changes channels while the event goes on
                first = begin + channel * step
                if receiver.is_busy(first, first + length):
                    reason = reason or 1
                elif others and self._is_covered(channel, first, first + length, others, receiver, strength):
                    reason = 2
                elif loss and chance() < loss:
                    reason = 3
                else:
                    heard = True
                    break
            if heard:
                yield receiver, strength
            elif reason == 1:
                self.busy += 1
            elif reason == 2:
                self.collided += 1
            else:
                self.lost += 1

    def _is_covered(
        self, channel: int, begin: int, end: int, others: list[Transmission], receiver: Radio, strength: float
    ) -> bool:
        """Whether another PDU at this receiver, on this channel and at this time, is too strong."""
        model = self.model
        for other in others:
            if other.overlap(channel, begin, end) and other.radio is not receiver:
                dx, dy = other.radio.x - receiver.x, other.radio.y - receiver.y
                if strength - model.rssi((dx * dx + dy * dy) ** 0.5, other.radio.power) < model.capture:
                    return True
        return False

    # Space

    def _cell_of(self, x: float, y: float) -> tuple[int, int]:
        return int(x // self._cell), int(y // self._cell)

    def _move(self, radio: Radio, x: float, y: float) -> None:
        cell = self._cell_of(x, y)
        if cell != radio.cell:
            if radio.scanning:
                self._grid[radio.cell].remove(radio)
                self._grid.setdefault(cell, []).append(radio)
            radio.cell = cell
        radio.x, radio.y = x, y
        radio.neighbours_as_of = -1
        if radio.scanning:
            self._moves += 1

    def _listen(self, radio: Radio, on: bool) -> None:
        """Those who scan are in the grid: nobody else is looked for there."""
        if on:
            self._grid.setdefault(radio.cell, []).append(radio)
        else:
            self._grid[radio.cell].remove(radio)
        self._moves += 1

    def _neighbours(self, radio: Radio) -> list[tuple[Radio, float]]:
        """Who listens and can hear this radio, and how strong. Kept until it moves, or one of those."""
        if radio.neighbours_as_of == self._moves:
            return radio.neighbours
        model, power, x, y = self.model, radio.power, radio.x, radio.y
        most = radio.reach * radio.reach
        size = int(radio.reach // self._cell) + 1
        column, row = radio.cell
        found = []
        for at_x in range(column - size, column + size + 1):
            for at_y in range(row - size, row + size + 1):
                for other in self._grid.get((at_x, at_y), ()):
                    dx, dy = other.x - x, other.y - y
                    square = dx * dx + dy * dy
                    if square <= most and other is not radio:
                        found.append((other, model.rssi(square**0.5, power)))
        radio.neighbours, radio.neighbours_as_of = found, self._moves
        return found
