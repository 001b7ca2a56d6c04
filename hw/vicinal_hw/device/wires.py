"""The host's end of a virtual device's wire: what stands for its chips, and answers its packets (onboard/fake_host.py).

    Y it is up   R reset   D soft reset   W watchdog, ms   F fed   C the power went     told
    P pin     A converter      I I2C   S SPI, to an MCP2515   N Wi-Fi      asked: the answer has the same number
    O pin     B advertise      L listen   G a program runs   Q no more     told
    K Ctrl-C (k: it was heard)        e an advertisement was heard         to the device, by itself

A frame that the simulated controller has no room for waits in front of it, and is not lost as on the chip: the device
asks over a socket, and would be too slow.
"""

from collections.abc import Callable
from typing import Any

from vicinal.cosmic.frame import Frame

from ..can.simulated_mcp2515 import SimulatedMcp2515

__all__ = ["Wires"]

_PACKET = 64  # of every packet to the device
_RX_FULL = 3
_NO_CHIP = 0xFF


class Wires:
    def __init__(
        self,
        wire: Callable[[bytes], None],
        can: str | None,
        bitrate: int,
        ble: str | None,
        at: tuple[int, int],
        wifi: dict[str, str] | None,
    ) -> None:
        """`can` and `ble` are names of a virtual bus and a virtual radio; `wifi` the networks with their passwords,
        None: any will do."""
        self._wire = wire
        self._can_name, self._bitrate = can, bitrate
        self._ble_name, self._at = ble, at
        self.wifi = wifi
        self.pins: dict[int, int] = {}
        self.adc: dict[int, int] = {}
        self.registers: dict[tuple[int, int], bytes] = {}
        """of I2C: address and register"""
        self.joined: list[str] = []
        """Wi-Fi networks that were asked for"""
        self._bus: Any = None
        self._chip = SimulatedMcp2515(self._request)
        self._waiting: list[Frame] = []
        self._radio: Any = None
        self._listening = False

    def answer(self, packet: bytes) -> None:
        kind, number, data = packet[:1], packet[1:2], packet[2:]
        if kind == b"P":
            self._send(kind, number, bytes([self.pins.get(data[0], 0)]))
        elif kind == b"O":
            self.pins[data[0]] = data[1]
        elif kind == b"A":
            self._send(kind, number, self.adc.get(data[0], 0).to_bytes(2, "big"))
        elif kind == b"I":
            self._send(kind, number, self.registers.get((data[0], data[1]), b"")[: data[2]])
        elif kind == b"S":
            self._send(kind, number, self._spi(data))
        elif kind == b"N":
            ssid, _, password = data.partition(b"\x00")
            self.joined.append(ssid.decode())
            right = self.wifi is None or self.wifi.get(ssid.decode()) == password.decode()
            self._send(kind, number, bytes([right]))
        elif kind == b"B":
            if data or self._radio is not None:
                self._on_air().advertise(data or None) if self._ble_name else None
        elif kind == b"L":
            self._listening = data == b"\x01" and self._ble_name is not None
            if self._listening:
                self._on_air()

    def _send(self, kind: bytes, number: bytes, data: bytes) -> None:
        self._wire((kind + number + bytes([len(data)]) + data).ljust(_PACKET, b"\x00"))

    def service(self) -> None:
        """What came by itself: of the air to the device, of the bus to the controller."""
        if self._radio is not None:
            while (heard := self._radio.fetch()) is not None:
                if self._listening:
                    self._send(b"e", b"\x00", bytes([heard.rssi & 255]) + heard.advertisement[:31])
        self._drain()

    @property
    def busy(self) -> bool:
        """Whether something may come by itself."""
        return self._radio is not None or self._bus is not None

    def switched_off(self) -> None:
        """The chips lose their memory with the device."""
        self._chip = SimulatedMcp2515(self._request)
        self._waiting.clear()
        self._listening = False
        if self._radio is not None:
            self._radio.advertise(None)

    def close(self) -> None:
        if self._radio is not None:
            self._radio.shut()
        if self._bus is not None:
            self._bus.shutdown()
        self._radio = self._bus = None

    # BLE

    def _on_air(self) -> Any:
        if self._radio is None:
            from ..ble.virtual import VirtualRadio

            assert self._ble_name is not None
            radio = VirtualRadio(self._ble_name, *self._at)
            radio.connect()
            self._radio = radio
        return self._radio

    # CAN

    def _spi(self, out: bytes) -> bytes:
        into = bytearray(len(out))
        if self._can_name is None:
            return bytes([_NO_CHIP] * len(out))
        if self._bus is None:
            import can

            self._bus = can.Bus(
                interface="vicinal", channel=self._can_name, bitrate=self._bitrate, receive_own_messages=True
            )
        self._drain()
        # Every transfer is an instruction: the driver moves chip select around each.
        self._chip.select(0)
        self._chip.write_readinto(out, into)
        self._chip.select(1)
        return bytes(into)

    def _request(self, frame: Frame) -> None:
        import can

        message = can.Message(
            arbitration_id=frame.id, data=frame.data, is_extended_id=frame.extended, is_remote_frame=frame.remote
        )
        try:
            self._bus.send(message, timeout=0)
        except can.CanError:
            self._chip.errors(256, 0)  # bus-off: the driver sees it, and recovers

    def _drain(self) -> None:
        if self._bus is None:
            return
        while (message := self._bus.recv(0)) is not None:
            if message.is_error_frame:
                continue
            if not message.is_rx:
                self._chip.transmitted()
                continue
            data = bytes(message.data)
            self._waiting.append(Frame(message.arbitration_id, data, message.is_extended_id, message.is_remote_frame))
        while self._waiting and self._chip.registers[0x2C] & _RX_FULL != _RX_FULL:
            self._chip.received(self._waiting.pop(0))
