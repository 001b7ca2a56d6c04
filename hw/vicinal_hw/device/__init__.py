"""A virtual device: real MicroPython, 32 bits and with a board's heap, behind a serial port; its chips are fakes.

    with VirtualDevice(Path("device"), can="car", ble="town") as device:
        device.port                          a pty: what `vicinal flash --port`, mpremote and a terminal open
        device.hello()                       what its agent says on the console: name, version, slot

    your program ── pty ── console ┐                       ┌ SimulatedMcp2515 ── virtual bus
                   (the cable)     │ MicroPython ── wire ──┤ virtual radio
                 flash: littlefs ──┘  (onboard/)           └ pins, converters, an access point

Real: the interpreter and its heap, littlefs on a flash of so many bytes, restarts with nothing but what is on flash, a
watchdog that bites, sockets. Fake (onboard/): `machine`, `bluetooth`, `network` and `esp32`, with what an agent
and `vicinal flash` use of them, and the dialogue of the prompt. Not there: the time that flash takes, its wear, the
ROM's loader that esptool talks to, a radio beside Wi-Fi, deep sleep.
"""

from .virtual import DeviceError, VirtualDevice, find_micropython

__all__ = ["DeviceError", "VirtualDevice", "find_micropython"]
