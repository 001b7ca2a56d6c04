"""How much memory an agent takes on a board that runs it from files, where imported code is copied into the heap.

Measured on the 32-bit MicroPython (tests/tools/flash measures again), rounded up, and with 8 KiB to work in. With
the code in a ROMFS it is half of it (edge/README.md); MicroPython's own builds for the ESP32 have none.
"""

from .configuration import Configuration

__all__ = ["needed", "warning"]

_BASE, _CAN, _BLE = 90, 29, 20
_TO_WORK = 8


def needed(configuration: Configuration) -> int:
    """Bytes of heap that are free before anything is loaded."""
    can, ble = "can" in configuration.kinds, "ble" in configuration.kinds
    return 1024 * (_BASE + _CAN * can + _BLE * ble + _TO_WORK)


def warning(configuration: Configuration, heap: int) -> str | None:
    wanted = needed(configuration)
    if heap >= wanted:
        return None
    kinds = " and ".join({"can": "CAN", "ble": "BLE"}[kind] for kind in configuration.kinds if kind != "sensor")
    return (
        f"with {kinds or 'no bus'} the agent wants {wanted // 1024} KiB of memory, and the device has {heap // 1024} "
        "free: it may not start, and then goes back to the one before. Leave out a bus, take a board with PSRAM, or a "
        "MicroPython with a ROMFS (edge/README.md)"
    )
