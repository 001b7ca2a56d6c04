"""The drivers of boards, on either interpreter: python device_suite.py, micropython device_suite.py.

MCP2515 talks to a simulated chip, MachineCAN to a fake of MicroPython's machine.CAN: neither is the real thing.
"""

import sys

from vicinal.cosmic.channels import NrtChannel, Raw, SrtChannel
from vicinal.cosmic.frame import Frame
from vicinal.cosmic.node import Node
from vicinal.errors import LocalProtocolError
from vicinal_hw.can.device_shell import DeviceShell
from vicinal_hw.can.machine_can import MachineCAN
from vicinal_hw.can.mcp2515 import MCP2515, bit_timing
from vicinal_hw.can.simulated_mcp2515 import SimulatedMcp2515

FRAMES = [
    Frame(0),
    Frame(0x1FFFFFFF, bytes(range(8))),
    Frame(0x15A5F0F3, b"abc"),
    Frame(0x7FF, b"12345678", False),
    Frame(0x2A5, b"", False),
    Frame(0x123, bytes(4), False, True),
    Frame(0x12345, bytes(8), True, True),
]


def raises(call, text):
    try:
        call()
    except LocalProtocolError as error:
        said = str(error)
    else:
        said = "nothing was raised"
    assert text in said, said


def chip_and_driver(**options):
    requests = []
    chip = SimulatedMcp2515(requests.append)
    return chip, MCP2515(chip, chip.select, **options), requests


class FakeMachineCAN:
    """A fake of machine.CAN, made after its documentation: one transmit buffer, filters by identifier."""

    FILTERS_MAX = 2
    FLAG_RTR, FLAG_EXT_ID = 1, 2
    IRQ_TX, IRQ_TX_FAILED, IRQ_TX_IDX_SHIFT, IRQ_TX_IDX_MASK = 2, 16, 8, 7
    STATE_ACTIVE, STATE_WARNING, STATE_PASSIVE, STATE_BUS_OFF = 1, 2, 3, 4

    def __init__(self):
        self.pending = None
        self.on_wire = False
        self.inbox = []
        self.filters = ()
        self.at = self.STATE_ACTIVE
        self.handler = None
        self.events = []
        self.restarts = 0

    def set_filters(self, filters):
        if filters is not None and len(filters) > self.FILTERS_MAX:
            raise ValueError("too many filters")
        self.filters = filters

    def irq(self, handler=None, trigger=0, hard=False):
        if handler is not None:
            self.handler = handler
        return self

    def flags(self):
        return self.events.pop(0) if self.events else 0

    def send(self, id, data, flags=0):
        if self.at == self.STATE_BUS_OFF:
            raise OSError("bus off")
        if self.pending is not None:
            return None
        self.pending = Frame(id, bytes(data), bool(flags & self.FLAG_EXT_ID), bool(flags & self.FLAG_RTR))
        return 0

    def cancel_send(self, index):
        if self.pending is None or self.on_wire:
            return False
        self.pending = None
        return True

    def recv(self):
        return self.inbox.pop(0) if self.inbox else None

    def state(self):
        return self.at

    def get_counters(self):
        return [7, 3, 0, 0, 0, 0, 0, 0]

    def restart(self):
        self.restarts += 1
        self.pending = None

    # What a test does to it

    def transmitted(self):
        self.pending = None
        self.on_wire = False
        self.events.append(self.IRQ_TX)
        self.handler(self)

    def received(self, frame):
        flags = (self.FLAG_EXT_ID if frame.extended else 0) | (self.FLAG_RTR if frame.remote else 0)
        for number, mask, kind in self.filters if self.filters is not None else ((0, 0, flags & self.FLAG_EXT_ID),):
            if kind == flags & self.FLAG_EXT_ID and not (frame.id ^ number) & mask:
                self.inbox.append([frame.id, memoryview(bytearray(frame.data)), flags, 0])
                return


def test_bit_timing():
    for crystal, bitrates in ((8000000, (125000, 250000, 500000)), (16000000, (125000, 250000, 500000, 1000000))):
        for bitrate in bitrates:
            cnf1, cnf2, cnf3 = bit_timing(crystal, bitrate)
            propagation, phase1, phase2 = (cnf2 & 7) + 1, (cnf2 >> 3 & 7) + 1, (cnf3 & 7) + 1
            quanta = 1 + propagation + phase1 + phase2
            assert crystal == bitrate * quanta * 2 * ((cnf1 & 63) + 1)
            assert 8 <= quanta <= 25
            assert phase2 >= 2
            assert propagation + phase1 >= phase2 > (cnf1 >> 6) + 1
            assert cnf2 & 0x80
            assert 70 <= 100 * (quanta - phase2) // quanta <= 88
    raises(lambda: bit_timing(8000000, 1000000), "1000000 bit/s")
    raises(lambda: bit_timing(8000000, 123456), "8000000 Hz")


def test_frames_out():
    chip, driver, requests = chip_and_driver()
    for frame in FRAMES:
        driver.load(frame)
        assert not driver.sent()
        raises(lambda frame=frame: driver.load(frame), "TXB0")
        chip.transmitted()
        assert driver.sent()
        assert not driver.sent()
    assert requests == FRAMES


def test_frames_in_and_in_order():
    chip, driver, _ = chip_and_driver()
    for frame in FRAMES:
        chip.received(frame)
        assert driver.receive() == frame
        assert driver.receive() is None
    chip.received(FRAMES[0])
    chip.received(FRAMES[1])
    assert [driver.receive(), driver.receive(), driver.receive()] == [FRAMES[0], FRAMES[1], None]
    chip.received(FRAMES[0])
    chip.received(FRAMES[1])
    assert driver.receive() == FRAMES[0]
    chip.received(FRAMES[2])  # into the first buffer, while the second frame is still to be fetched
    assert [driver.receive(), driver.receive()] == [FRAMES[1], FRAMES[2]]


def test_overflow_is_counted():
    chip, driver, _ = chip_and_driver()
    for frame in FRAMES[:3]:
        chip.received(frame)
    assert driver.state() == "active"
    assert driver.overflows == 1
    assert driver.state() == "active"
    assert driver.overflows == 1
    assert [driver.receive(), driver.receive(), driver.receive()] == [FRAMES[0], FRAMES[1], None]


def test_abort():
    chip, driver, _ = chip_and_driver()
    assert not driver.abort()
    driver.load(Frame(1))
    assert driver.abort()
    assert not driver.sent()
    driver.load(Frame(2))
    chip.on_wire = True
    assert not driver.abort()
    chip.transmitted()
    assert driver.sent()


def test_filters_in_the_chip_and_here():
    lists = [
        [(0x100, 0x7F0, False)],
        [(0x5, 0x3FFF, True), (0x6, 0x3FFF, True), (0x7, 0x3FFF, True)],
        [(0x100, 0x7FF, False), (0x12345, 0x1FFFFFFF, True), (0x6, 0x1FFFFFFF, True)],
        [(number, 0x7FF, False) for number in range(6)],
        [(number, 0x7FF, False) for number in range(0, 14, 2)],
        [(1, 1, False), (2, 2, False), (0x10, 0x10, True)],
        [],
    ]
    samples = [Frame(n, b"\xff\xff", False) for n in (0, 1, 2, 3, 5, 6, 0xC, 0x100, 0x10F, 0x110)]
    samples += [Frame(n) for n in (0, 5, 6, 7, 0x10, 0x100, 0x12345, 0x1234005, 0x1FFFFFF7)]
    for filters in lists:
        chip, driver, _ = chip_and_driver(filters=filters)
        let_in = 0
        for frame in samples:
            wanted = [wide == frame.extended and (frame.id ^ n) & mask == 0 for n, mask, wide in filters]
            chip.received(frame)
            assert driver.receive() == (frame if any(wanted) else None)
        let_in = driver.refused
        fits = filters in (lists[0], lists[1], lists[2], lists[3])
        assert (let_in == 0) == fits, (filters, let_in)
    raises(lambda: chip_and_driver(filters=[(0, 0x800, False)]), "0x800")


def test_states_and_listening():
    chip, driver, _ = chip_and_driver()
    for tec, rec, state in ((0, 0, "active"), (96, 0, "warning"), (0, 128, "passive"), (256, 0, "bus-off")):
        chip.errors(tec, rec)
        assert driver.state() == state
    chip.errors(12, 34)
    assert driver.counters() == (12, 34)
    chip, driver, _ = chip_and_driver(listen_only=True)
    chip.received(FRAMES[1])
    assert driver.receive() == FRAMES[1]
    raises(lambda: driver.load(Frame(1)), "listens")
    dead = SimulatedMcp2515()
    dead.write_readinto = lambda out, into: None
    raises(lambda: MCP2515(dead, dead.select), "wiring")


def test_machine_can():
    can = FakeMachineCAN()
    driver = MachineCAN(can)
    for frame in FRAMES:
        driver.load(frame)
        assert can.pending == frame
        raises(lambda frame=frame: driver.load(frame), "abort")
        assert not driver.sent()
        can.transmitted()
        assert driver.sent()
        assert not driver.sent()
        can.received(frame)
        assert driver.receive() == frame
    assert driver.receive() is None
    driver.load(Frame(1))
    assert driver.abort()
    assert not driver.abort()
    driver.load(Frame(2))
    can.on_wire = True
    assert not driver.abort()
    for number, state in ((1, "active"), (2, "warning"), (3, "passive"), (4, "bus-off")):
        can.at = number
        assert driver.state() == state
    assert driver.counters() == (7, 3)
    driver.recover()
    assert can.restarts == 1
    few = MachineCAN(can, [(5, 7, True)])
    assert can.filters == [(5, 7, can.FLAG_EXT_ID)]
    can.received(Frame(0xD))
    can.received(Frame(4))
    assert few.receive() == Frame(0xD)
    assert few.receive() is None
    assert few.refused == 0
    many = MachineCAN(can, [(1, 3, True), (2, 3, True), (3, 3, True)])
    can.received(Frame(4))
    can.received(Frame(5))
    assert many.receive() == Frame(5)
    assert many.receive() is None
    assert many.refused == 1


def test_a_node_on_a_board():
    """Urgent frames overtake, bus-off loses nothing, and what is late in the mailbox is exchanged."""
    for make in ("mcp2515", "machine"):
        if make == "mcp2515":
            wire, driver, _ = chip_and_driver()
        else:
            wire = FakeMachineCAN()
            driver = MachineCAN(wire)
        node = Node(1, 500000)
        shell = DeviceShell(node, driver)
        sent = []

        def in_mailbox(make=make, wire=wire):
            return wire._frame(0x31) if make == "mcp2515" else wire.pending

        slow = NrtChannel(node, 200, codec=Raw, fragmented=False)
        fast = SrtChannel(node, 201, deadline=100000, codec=Raw, fragmented=False)
        slow.announce(0)
        fast.announce(0)
        heard = []
        slow.subscribe(lambda event, tx_node, now, heard=heard: heard.append(event), 0)
        wire.received(Frame(251 << 21 | 9 << 14 | 200, b"hello"))
        slow.publish(b"slow", 0)
        assert shell.service(0) is not None
        assert heard == [b"hello"]
        assert in_mailbox().data == b"slow"
        fast.publish(b"fast", 10)
        shell.service(10)
        assert in_mailbox().data == b"fast"
        sent.append(in_mailbox().data)
        wire.transmitted()
        shell.service(20)
        assert in_mailbox().data == b"slow"
        if make == "mcp2515":
            wire.errors(256, 0)
        else:
            wire.at = wire.STATE_BUS_OFF
        now = 20
        for _ in range(4):
            now += 5000  # the poll, so bus-off is seen within 10 ms
            shell.service(now)
        assert node.counters["bus-off"] == 1
        assert node.stored == 1
        if make == "mcp2515":
            assert not wire.registers[0x30] & 8
            wire.errors(0, 0)
        else:
            assert wire.restarts == 1
            wire.at = wire.STATE_ACTIVE
        shell.service(now + 5000)
        shell.service(now + 5001)
        assert in_mailbox().data == b"slow"
        wire.transmitted()
        shell.service(now + 5100)
        assert node.stored == 0
        assert node.counters["out sent"] == 2


def main():
    names = [name for name in sorted(globals()) if name.startswith("test_")]
    failed = 0
    for name in names:
        try:
            globals()[name]()
        except Exception as error:
            failed += 1
            print("FAILED", name, repr(error))
            if hasattr(sys, "print_exception"):
                sys.print_exception(error)
    print(f"{len(names) - failed} passed, {failed} failed")


if __name__ == "__main__":
    main()
