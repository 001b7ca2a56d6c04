"""Which serial port: the one that was named, or the only one that looks like a board."""

import errno
from typing import Any

from .errors import NoPort

__all__ = ["check", "choose", "listed"]


def listed() -> list[Any]:
    """Serial ports on USB, as pyserial lists them: what a board's cable makes. Others are a PC's own, and modems."""
    from serial.tools.list_ports import comports

    return sorted((port for port in comports() if port.vid is not None), key=lambda port: str(port.device))


def choose(port: str | None, found: list[Any] | None = None) -> str:
    if port is not None:
        return port
    ports = listed() if found is None else found
    if not ports:
        raise NoPort(
            "no device found: is its cable plugged in, and one that carries data? `vicinal device run FOLDER` is a "
            "virtual one; name another port with --port"
        )
    if len(ports) > 1:
        lines = "\n".join(f"  --port {each.device}    {each.description}" for each in ports)
        raise NoPort(f"there are {len(ports)} devices, say which:\n{lines}")
    return str(ports[0].device)


def check(port: str) -> None:
    """Opened and closed: pyserial says what is wrong, which mpremote's transport keeps to itself."""
    import serial

    try:
        serial.Serial(port, exclusive=True).close()
    except serial.SerialException as error:
        said = str(error)
        if error.errno == errno.ENOENT:
            there = ", ".join(str(each.device) for each in listed()) or "none"
            raise NoPort(f"there is no port {port}: is the cable plugged in? On USB there are: {there}") from error
        if error.errno == errno.EACCES:
            raise NoPort(
                f"no permission to open {port}: on Linux become a member of its group, as with `sudo usermod -aG "
                "dialout $USER`, and log in again"
            ) from error
        if error.errno in (errno.EAGAIN, errno.EBUSY) or "exclusively lock" in said:
            raise NoPort(f"{port} is in use: close the terminal, mpremote or IDE that has it open") from error
        raise NoPort(f"{port} cannot be opened: {said}") from error
