"""Plain sensors as small drivers: each has read(), a whole number. They run on MicroPython; NumberFile also on a Pi.

    Gpio(Pin(4, Pin.IN))                                0 or 1
    Adc(ADC(34))                                        0 .. 65535, whatever the converter has
    I2cRegister(I2C(0), 0x48, 0, 2, signed=True)        what a register holds
    NumberFile("/sys/class/thermal/thermal_zone0/temp") what Linux says of a sensor of its own: iio, hwmon, gpio

What cannot be read is an OSError, as of a device that does not answer; who reads says so and tries again.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Adc", "Gpio", "I2cRegister", "NumberFile"]


class Gpio:
    def __init__(self, pin: "Any") -> None:
        self._pin = pin

    def read(self) -> int:
        return 1 if self._pin.value() else 0


class Adc:
    def __init__(self, adc: "Any") -> None:
        self._adc = adc

    def read(self) -> int:
        value: int = self._adc.read_u16()
        return value


class I2cRegister:
    def __init__(
        self, i2c: "Any", address: int, register: int, size: int = 2, signed: bool = False, little: bool = False
    ) -> None:
        self._i2c = i2c
        self._address = address
        self._register = register
        self._size = size
        self._signed = signed
        self._little = little

    def read(self) -> int:
        data = self._i2c.readfrom_mem(self._address, self._register, self._size)
        value = int.from_bytes(data, "little" if self._little else "big")
        if self._signed and value >> (8 * self._size - 1):
            value -= 1 << 8 * self._size
        return value


class NumberFile:
    def __init__(self, path: str) -> None:
        self._path = path

    def read(self) -> int:
        with open(self._path) as file:  # noqa: PTH123 - MicroPython has no pathlib
            text = file.read(32).strip()
        try:
            return int(text)
        except ValueError:
            raise OSError(f"{self._path} has {text!r}, want a whole number")  # noqa: B904
