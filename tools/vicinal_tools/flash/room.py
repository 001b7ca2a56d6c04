"""How much memory an agent takes on a board: of files, imported code is copied into the heap; of a ROMFS it is not.

Measured on the 32-bit MicroPython (tests/tools/flash measures again), rounded up, and with 8 KiB to work in.
MicroPython's own builds for the ESP32 have no ROMFS.
"""

from vicinal_edge.agent.slots import ROM_BOOT, ROM_LEAST

from .configuration import Configuration

__all__ = ["ROM_WANTED", "needed", "warning"]

ROM_WANTED = ROM_BOOT + 2 * ROM_LEAST

# KiB: any agent, with CAN, with BLE.
_FILES = (90, 29, 20)
_ROM = (49, 18, 18)
_TO_WORK = 8


def needed(configuration: Configuration, rom: bool = False) -> int:
    """Bytes of heap that are free before anything is loaded."""
    can, ble = "can" in configuration.kinds, "ble" in configuration.kinds
    base, with_can, with_ble = _ROM if rom else _FILES
    return 1024 * (base + with_can * can + with_ble * ble + _TO_WORK)


def warning(configuration: Configuration, heap: int, rom: int = 0) -> str | None:
    """`rom`: bytes of the ROMFS of the device."""
    is_used = rom >= ROM_WANTED
    wanted = needed(configuration, is_used)
    if heap >= wanted:
        return None
    kinds = " and ".join({"can": "CAN", "ble": "BLE"}[kind] for kind in configuration.kinds if kind != "sensor")
    better = "" if is_used else f", or a MicroPython with a ROMFS of {ROM_WANTED // 1024} KiB (edge/README.md)"
    if rom and not is_used:
        better += f": this one has {rom // 1024}"
    return (
        f"with {kinds or 'no bus'} the agent wants {wanted // 1024} KiB of memory, and the device has {heap // 1024} "
        "free: it may not start, and then goes back to the one before. Leave out a bus, take a board with PSRAM"
        f"{better}"
    )
