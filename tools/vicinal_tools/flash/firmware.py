"""MicroPython itself, written by esptool as a library: the image is checked against the board before a byte goes out.

Not tried on hardware: the dialogue with a chip's loader is esptool's, and what is tested here is what it is asked for.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vicinal.errors import LocalProtocolError
from vicinal_hw.boards import Board

from .errors import FlashError, NoPort, WrongBoard

__all__ = ["check_image", "write"]

BAUD = 460_800


def check_image(path: Path, board: Board) -> bytes:
    """The image, if it is one for the chip of the board, whole at its beginning (a loader's, before the rest)."""
    from esptool import CHIP_DEFS, FatalError
    from esptool.bin_image import LoadFirmwareImage

    try:
        data = path.read_bytes()
    except OSError as error:
        raise LocalProtocolError(f"firmware {path}: {error.strerror}") from error
    where = f"firmware {path}"
    if board.flash_mb is not None and len(data) > board.flash_mb * 1024 * 1024:
        raise LocalProtocolError(f"{where}: {len(data):,} bytes, {board.title} has {board.flash_mb} MiB of flash")
    try:
        image = LoadFirmwareImage(board.chip, data)
        right = image.checksum == image.calculate_checksum()
    except (FatalError, RuntimeError, IndexError, ValueError, OSError) as error:
        raise LocalProtocolError(f"{where}: no image for an ESP32: {error}") from error
    except Exception as error:  # of struct, of what is cut off
        raise LocalProtocolError(f"{where}: no image for an ESP32, or cut off") from error
    if image.chip_id != CHIP_DEFS[board.chip].IMAGE_CHIP_ID:
        chips = [name for name, rom in CHIP_DEFS.items() if getattr(rom, "IMAGE_CHIP_ID", None) == image.chip_id]
        raise LocalProtocolError(
            f"{where}: it is for the chip {chips[0] if chips else image.chip_id}, and board {board.name!r} has "
            f"{board.chip}: take the image for this board, or give the right --board"
        )
    if not right:
        raise LocalProtocolError(f"{where}: its checksum is wrong: get it again")
    return data


def write(port: str, board: Board, data: bytes, told: Callable[[int, int], None]) -> None:
    """`told` with how much is written of how much. The chip is asked what it is before anything is."""
    from esptool import FatalError, cmds

    _hush(told)
    try:
        with cmds.detect_chip(port) as rom:
            chip = rom.CHIP_NAME.lower().replace("-", "")
            if chip != board.chip:
                cmds.reset_chip(rom, "hard-reset")
                raise WrongBoard(
                    f"the chip at {port} is {rom.CHIP_NAME}, and board {board.name!r} has {board.chip}: give the "
                    "right --board and an image for it. Nothing was written"
                )
            stub = cmds.run_stub(rom)
            cmds.attach_flash(stub)
            with contextlib.suppress(FatalError):
                stub.change_baud(BAUD)  # where the cable can; else as slow as before
            cmds.write_flash(stub, [(board.firmware_offset, data)])
            cmds.reset_chip(stub, "hard-reset")
    except FatalError as error:
        raise FlashError(
            f"{port}: esptool says: {error}. Hold BOOT while you plug it in or press reset, and try again. A board "
            "whose firmware is half written is not broken: its loader is in ROM"
        ) from error
    except OSError as error:
        raise NoPort(
            f"{port} is gone, or cannot be opened: {error}. Plug it in and give the same command again: its loader "
            "is in ROM, and a firmware that is half written is written anew"
        ) from error


_told: list[Callable[[int, int], None]] = []
"""who hears how far it is, if esptool has its logger of ours: that is set once, as it cannot be taken back"""


def _hush(told: Callable[[int, int], None]) -> None:
    """esptool tells its story to the terminal; of that, how far it is goes to our bar."""
    if _told:
        _told[0] = told
        return
    from esptool.logger import TemplateLogger, log

    class Quiet(TemplateLogger):  # type: ignore[misc] # no types
        def print(self, *args: Any, **kwargs: Any) -> None:
            pass

        def note(self, message: str) -> None:
            pass

        def warning(self, message: str) -> None:
            pass

        def error(self, message: str) -> None:
            pass

        def stage(self, finish: bool = False) -> None:
            pass

        def progress_bar(
            self, cur_iter: int, total_iters: int, prefix: str = "", suffix: str = "", bar_length: int = 30
        ) -> None:
            _told[0](cur_iter, total_iters)

        def set_verbosity(self, verbosity: str) -> None:
            pass

    _told.append(told)
    log.set_logger(Quiet())
