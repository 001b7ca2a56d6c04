"""Bringing an agent onto a board: what `vicinal flash` does, one idea a module.

release.py         the staged tree and its boot part, with sizes and hashes
configuration.py   agent.toml as this board's agent.json, with its secrets
firmware.py        MicroPython itself, by esptool
ports.py           which serial port
link.py            the raw REPL of what is there, by mpremote's transport, and what can go wrong with it
rom.py             the staged tree as an image in the ROMFS of a board, block by block
flasher.py         the job: copy into the other slot, compare, switch, restart, wait for the hello
"""

from .errors import FlashError

__all__ = ["FlashError"]
