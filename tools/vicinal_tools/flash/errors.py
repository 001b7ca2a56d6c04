"""What can go wrong on the way to a board. Each message says what to do, and what is on the device now.

FlashError
├── NoPort           no device, several, no such port, no permission, in use by another program
├── NotMicroPython   something is there that does not answer as MicroPython
├── WrongBoard       another chip than the one that was asked for
├── DeviceFull       its file system has no room
├── Unplugged        it was there, and is gone
└── NoHello          it has everything, and its agent did not start
"""

__all__ = ["DeviceFull", "FlashError", "NoHello", "NoPort", "NotMicroPython", "Unplugged", "WrongBoard"]


class FlashError(Exception):
    pass


class NoPort(FlashError):
    pass


class NotMicroPython(FlashError):
    pass


class WrongBoard(FlashError):
    pass


class DeviceFull(FlashError):
    pass


class Unplugged(FlashError):
    pass


class NoHello(FlashError):
    pass
