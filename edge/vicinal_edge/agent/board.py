"""What a board has, as MicroPython gives it: pins, buses, radios, flash, Wi-Fi, the hardware's watchdog.

Each is imported where it is asked for: a board without a radio runs an agent without BLE. What a board lacks is said
with the name of what was asked for.
"""

import time as _time

from vicinal.errors import LocalProtocolError

from .parts import BlePart, CanPart, SensorPart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .config import Config

time: "Any" = _time  # MicroPython's has ticks

__all__ = ["Board"]

# ms for an access point to answer; then the agent goes on without, and the network connects by itself.
_WIFI_PATIENCE = 15000


class Board:
    def flash(self, config: "Config") -> "Any":
        if config.partition is not None:
            from vicinal_hw.flash.partition import PartitionFlash

            try:
                from esp32 import Partition
            except ImportError:
                raise _lacks("esp32", f"a journal in partition {config.partition!r}")
            found = Partition.find(Partition.TYPE_DATA, label=config.partition)
            if not found:
                raise LocalProtocolError(f"[journal] partition {config.partition!r} is not in the partition table")
            return PartitionFlash(found[0])
        from vicinal_hw.flash.file import FileFlash

        return FileFlash(config.journal, config.sectors, config.sector_bytes)

    def open(self, ports: "Any", loop: "Any", now: int) -> "Any":
        port, offer = ports[0], loop.offer_of(ports[0])
        if port.kind == "can":
            return CanPart(port, _controller(port), offer, now)
        if port.kind == "ble":
            from vicinal_hw.ble.device_radio import DeviceRadio

            try:
                from bluetooth import BLE
            except ImportError:
                raise _lacks("bluetooth", "a BLE group")
            radio = DeviceRadio(BLE())
            position = loop.config.position or (None, None)
            return BlePart(ports, radio, loop.sender, loop.config.name, position, offer, now)
        return SensorPart(port, _sensor(port), offer, now)

    def watchdog(self, ms: int) -> "Any":
        """machine.WDT, or None where there is none: then nobody bites."""
        try:
            import machine
        except ImportError:
            return None
        made = getattr(machine, "WDT", None)
        return None if made is None else made(timeout=ms)

    def connect(self, config: "Config") -> None:
        self.join(config.ssid, config.password)

    def join(self, ssid: "str | None", password: "str | None") -> None:
        if ssid is None:
            return
        try:
            import network
        except ImportError:
            raise _lacks("network", "[wifi]")
        station = network.WLAN(network.STA_IF)
        station.active(True)
        if not station.isconnected():
            station.connect(ssid, password or "")
            start = time.ticks_ms()
            while not station.isconnected() and time.ticks_diff(time.ticks_ms(), start) < _WIFI_PATIENCE:
                time.sleep_ms(100)


def _machine(what: str) -> "Any":
    try:
        import machine
    except ImportError:
        raise _lacks("machine", what)
    return machine


def _lacks(name: str, what: str) -> LocalProtocolError:
    return LocalProtocolError(f"{what} needs MicroPython's `{name}`, which this firmware has not")


def _controller(port: "Any") -> "Any":
    machine = _machine("[[can]]")
    if port.controller == "machine":
        from vicinal_hw.can.machine_can import MachineCAN

        if not hasattr(machine, "CAN"):
            raise LocalProtocolError('controller = "machine": this firmware has no machine.CAN; use an MCP2515')
        return MachineCAN(machine.CAN(port.pins.get("bus", 1), port.bitrate))
    if port.controller == "mcp2515":
        from vicinal_hw.can.mcp2515 import MCP2515

        pins = port.pins
        spi = machine.SPI(pins.get("spi", 1), baudrate=10000000)
        return MCP2515(spi, machine.Pin(pins.get("cs", 5), machine.Pin.OUT, value=1), bitrate=port.bitrate)
    raise LocalProtocolError(
        '[[can]] controller is "python-can", which is for a Pi: a board has "mcp2515" or "machine"'
    )


def _sensor(port: "Any") -> "Any":
    from vicinal_hw import sensors  # a kilobyte, which an agent of buses alone has for itself

    if port.type == "file":
        return sensors.NumberFile(port.path)
    if port.type == "own":
        raise LocalProtocolError(f'[[sensor]] {port.subject!r}: "own" is for programs with drivers of their own')
    machine = _machine(f'a sensor of type "{port.type}"')
    if port.type == "gpio":
        pull = {None: None, "up": machine.Pin.PULL_UP, "down": machine.Pin.PULL_DOWN}[port.pull]
        return sensors.Gpio(machine.Pin(port.pin, machine.Pin.IN, pull))
    if port.type == "adc":
        return sensors.Adc(machine.ADC(machine.Pin(port.pin)))
    pins = port.pins
    if "scl" in pins and "sda" in pins:
        i2c = machine.I2C(port.bus, scl=machine.Pin(pins["scl"]), sda=machine.Pin(pins["sda"]))
    else:
        i2c = machine.I2C(port.bus)
    return sensors.I2cRegister(i2c, port.address, port.register, port.bytes, port.signed, port.little)
