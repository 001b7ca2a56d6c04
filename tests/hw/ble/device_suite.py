"""The board's radio, on either interpreter: python device_suite.py, micropython device_suite.py.

FakeBle is a fake of MicroPython's bluetooth.BLE, made after its documentation, and several of them hear each other at
once and without loss: it is not the real thing, and not the virtual radio either.
"""

from vicinal.errors import LimitError
from vicinal.event import Event
from vicinal.proximity import Proximity
from vicinal.steam.node import Node
from vicinal_hw.ble.device_radio import DeviceRadio, DeviceShell
from vicinal_hw.location.fix import Fix

LAT, LON = 533438000, -62546000
SCAN_RESULT, SCAN_DONE = 5, 6


class FakeAir:
    def __init__(self):
        self.fakes = []
        self.sent = []

    def radio(self):
        fake = FakeBle(self)
        self.fakes.append(fake)
        return fake


class FakeBle:
    """A fake of bluetooth.BLE."""

    def __init__(self, air):
        self.air = air
        self.handler = None
        self.is_active = False
        self.scanning = None
        self.advertising = None
        self.scans = 0
        # The stack's own buffer, used again for each result.
        self.buffer = bytearray(31)

    def active(self, on):
        self.is_active = on

    def irq(self, handler):
        self.handler = handler

    def gap_scan(self, duration_ms, interval_us=1280000, window_us=11250, active=False):
        if not self.is_active:
            raise OSError("not active")
        self.scanning = None if duration_ms is None else (duration_ms, interval_us, window_us, active)
        self.scans += 1

    def gap_advertise(self, interval_us, adv_data=None, resp_data=None, connectable=True):
        if not self.is_active:
            raise OSError("not active")
        if interval_us is None:
            self.advertising = None
            return
        if len(adv_data) > 31:
            raise OSError(-18)
        self.advertising = (interval_us, bytes(adv_data), connectable)
        self.air.sent.append(bytes(adv_data))
        for other in self.air.fakes:
            if other is not self:
                other.hear(adv_data, -60)

    def hear(self, data, rssi):
        if self.scanning is None or self.handler is None:
            return
        self.buffer[: len(data)] = data
        address = memoryview(b"\x01\x02\x03\x04\x05\x06")
        self.handler(SCAN_RESULT, (0, address, 3, rssi, memoryview(self.buffer)[: len(data)]))
        for i in range(len(self.buffer)):
            self.buffer[i] = 0xEE


def test_it_scans_and_advertises_as_asked():
    fake = FakeAir().radio()
    radio = DeviceRadio(fake, 150, 10000)
    assert fake.scanning == (0, 30000, 10000, False)
    radio.advertise(b"\x04\xff\xff\xffx")
    assert fake.advertising == (150000, b"\x04\xff\xff\xffx", False)
    radio.advertise(None)
    assert fake.advertising is None
    fake.handler(SCAN_DONE, None)
    assert fake.scans == 2
    radio.close()
    assert not fake.is_active
    assert fake.scanning is None


def test_ours_are_copied_and_strangers_counted():
    fake = FakeAir().radio()
    radio = DeviceRadio(fake)
    fake.hear(b"\x02\x01\x06\x05\xff\x4c\x00\x10\x05", -70)
    fake.hear(b"", -70)
    fake.hear(b"\x02\x01\x06\x06\xff\xff\xff\x24\x05\x06", -71)
    fake.hear(b"\x05\xff\xff\xffab", -72)
    assert radio.receive() == (b"\x02\x01\x06\x06\xff\xff\xff\x24\x05\x06", -71)
    assert radio.receive() == (b"\x05\xff\xff\xffab", -72)
    assert radio.receive() is None
    assert radio.counters == {"heard": 2, "strangers": 2, "dropped": 0}


def test_the_queue_is_bounded_and_what_does_not_fit_is_counted():
    fake = FakeAir().radio()
    radio = DeviceRadio(fake)
    for number in range(40):
        fake.hear(b"\x05\xff\xff\xff!" + bytes([number]), -50)
    assert radio.counters == {"heard": 16, "strangers": 0, "dropped": 24}
    numbers = []
    while True:
        heard = radio.receive()
        if heard is None:
            break
        numbers.append(heard[0][-1])
    assert numbers == list(range(16))


def test_too_long_is_said_kindly():
    radio = DeviceRadio(FakeAir().radio())
    said = ""
    try:
        radio.advertise(bytes(32))
    except LimitError as error:
        said = str(error)
    assert "32" in said
    assert "31" in said


def test_events_from_board_to_board():
    air = FakeAir()
    got, members = [], []
    car, post = Node("car", 1), Node("post", 2)
    post.subscribe("Speed", None, lambda event, now: got.append(event))
    post.on_member = lambda what, group, now: members.append(what)
    shells = [DeviceShell(car, DeviceRadio(air.radio())), DeviceShell(post, DeviceRadio(air.radio()))]
    car.set_position(LAT, LON, 0)
    post.set_position(LAT + 1000, LON, 0)
    car.announce("Speed", Proximity.circle(LAT, LON, 200), 0)
    for now in range(0, 10000, 10):
        if now in (1000, 3000, 5000):
            car.publish(Event("Speed", [("rate", now), ("license_no", "00D12345")]), now)
        if now == 7000:
            post.set_position(LAT + 100000, LON, now)
        if now == 7500:
            car.publish(Event("Speed", [("rate", now)]), now)
        for shell in shells:
            shell.service(now)
    assert [event["rate"] for event in got] == [1000, 3000, 5000]
    assert members == ["joined", "left"]
    assert shells[1].radio.counters["dropped"] == 0


def test_a_fix_says_where_and_how_fast():
    car = Node("car", 1)
    shell = DeviceShell(car, DeviceRadio(FakeAir().radio()))
    shell.set_fix(Fix(LAT, LON, speed=11132, heading=18000), 5)
    assert (car.position, car.velocity) == ((LAT, LON), (-1000, 0))
    shell.set_fix(None, 6)
    assert (car.position, car.velocity) == (None, (0, 0))


def test_service_says_when_to_come_again_and_sends_once_in_an_interval():
    air = FakeAir()
    car = Node("car", 1)
    shell = DeviceShell(car, DeviceRadio(air.radio()))
    assert shell.service(0) is None
    car.set_position(LAT, LON, 0)
    car.announce("Speed", Proximity.circle(LAT, LON, 200), 0)
    car.publish(Event("Speed", [("rate", 1)]), 0)
    now, times = 0, []
    while now < 1500:
        before = len(air.sent)
        again = shell.service(now)
        if len(air.sent) > before:
            times.append(now)
            assert len(air.sent) == before + 1
        assert again is not None
        assert again > now
        now = again
    assert len(times) >= 2
    assert all(times[at] - times[at - 1] >= 100 for at in range(1, len(times)))
