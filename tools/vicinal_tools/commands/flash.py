"""vicinal flash."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vicinal.errors import LocalProtocolError

from ..complain import BadInput
from ..overlay import Failed

if TYPE_CHECKING:
    from vicinal_hw.boards import Board

    from ..flash.configuration import Configuration
    from ..flash.flasher import Done
    from ..flash.release import Release

__all__ = ["command"]


@click.command("flash")
@click.option("--board", "name", required=True, help="What kind of board it is; `vicinal board list`.")
@click.option("--config", required=True, type=click.Path(dir_okay=False), help="agent.toml; `vicinal agent new`.")
@click.option("--port", help="Its serial port; found by itself when one device is there.")
@click.option("--firmware", type=click.Path(dir_okay=False), help="An image of MicroPython to write before.")
@click.option(
    "--secrets", type=click.Path(dir_okay=False), help="A file with the Wi-Fi password; else it is asked for."
)
@click.option("--dry-run", is_flag=True, help="Say what would be done, with every file; no port is opened.")
@click.option("--json", "as_json", is_flag=True, help="Say what was done as one JSON object.")
def command(
    name: str,
    config: str,
    port: str | None,
    firmware: str | None,
    secrets: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Bring an agent onto a board, and wait for its hello.

    The agent goes into the slot that does not run, every file is compared with what was sent, and only then the board
    switches: whatever happens before, it starts its old agent. An interrupted copy goes on where it was. Without
    hardware: `vicinal device run FOLDER`, and its port.
    """
    from vicinal_hw.boards import board as board_of

    from ..flash.errors import FlashError

    try:
        board = board_of(name)
        if board.kind != "micropython":
            raise BadInput(f"board {name!r} runs Linux: install vicinal on it, and `vicinal agent run {config}`")
        _run(board, Path(config), port, firmware, secrets, dry_run, as_json)
    except LocalProtocolError as error:
        raise BadInput(str(error)) from error
    except FlashError as error:
        raise Failed(str(error)) from error


def _run(
    board: "Board",
    config: Path,
    port: str | None,
    firmware: str | None,
    secrets: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    from ..flash import firmware as firmwares
    from ..flash import ports, release
    from ..flash.configuration import prepare, secrets_of

    known = None if secrets is None else secrets_of(Path(secrets))
    ask = _ask if sys.stdin.isatty() else None
    configuration = prepare(config, board, known, (lambda ssid: "") if dry_run else ask)
    image = None if firmware is None else firmwares.check_image(Path(firmware), board)
    built = release.build()
    if dry_run:
        _show_plan(board, built, configuration, image, as_json)
        return
    found = ports.choose(port)
    ports.check(found)
    with _Bars(quiet=as_json) as bars:
        if image is not None:
            bars.step("firmware")
            firmwares.write(found, board, image, bars.is_at)
        from ..flash.flasher import flash

        done = flash(found, board, built, configuration, bars)
    _show_done(found, board, built, done, as_json)


def _ask(ssid: str) -> str:
    return str(click.prompt(f"Password of the Wi-Fi network {ssid!r}", default="", hide_input=True, show_default=False))


def _show_plan(
    board: "Board", release: "Release", configuration: "Configuration", image: bytes | None, as_json: bool
) -> None:
    from ..flash.room import ROM_WANTED

    boot = {name: len(data) for name, data in release.boot.items()}
    files = {name: len(data) for name, data in release.files.items()} | {"agent.json": len(configuration.data)}
    images = {"boot": len(release.boot_image), "slot": len(release.image)}
    if as_json:
        said: dict[str, Any] = {"board": board.name, "version": release.version, "boot": boot, "files": files}
        said |= {"rom": {"wanted": ROM_WANTED, "images": images}}
        click.echo(json.dumps(said | {"firmware": None if image is None else len(image)}))
        return
    if image is not None:
        click.echo(f"{len(image):>9,}  firmware, at {board.firmware_offset:#x}")
    for path, size in boot.items():
        click.echo(f"{size:>9,}  /{path}")
    for path, size in files.items():
        click.echo(f"{size:>9,}  /SLOT/{path}")
    total = sum(boot.values()) + sum(files.values())
    name, count = configuration.config.name, len(boot) + len(files)
    click.echo(f"{total:>9,}  bytes in {count} files: agent {name}, version {release.version}, for {board.title}")
    click.echo(
        "SLOT is a or b, whichever does not run. What is there already with the same hash is not sent again. Then all\n"
        "files are compared, the board switches to the slot, restarts, and its hello is waited for.\n"
        f"If the board has a ROMFS of {ROM_WANTED // 1024} KiB or more, /SLOT/lib goes there as an image of "
        f"{images['slot']:,} bytes, and the boot\npart, too, as one of {images['boot']:,}: block by block, compared, "
        "and run where they lie."
    )


def _show_done(port: str, board: "Board", release: "Release", done: "Done", as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"port": port, "board": board.name, "version": release.version} | done.table()))
        return
    for note in done.notes:
        click.echo(f"Note: {note}", err=True)
    what = "blocks" if done.rom else "files"
    click.echo(
        f"{done.sent} {what} sent, {done.copied} copied on the device, {done.kept} were there: slot {done.slot}"
        f"{' in the ROMFS' if done.rom else ''} of {board.title} at {port}"
    )
    hello = done.hello
    click.echo(f"hello from {hello['agent']}, version {hello['version']}{', in safe mode' if hello['safe'] else ''}")
    if hello.get("trial") and done.before:
        click.echo(f"On trial for a minute: if it restarts twice before that, version {done.before} comes back.")


class _Bars:
    """How far it is, on stderr, where somebody looks."""

    def __init__(self, quiet: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

        self._progress = Progress(
            TextColumn("{task.description:<44.44}"),
            BarColumn(),
            DownloadColumn(),
            console=Console(stderr=True),
            disable=quiet or not sys.stderr.isatty(),
            transient=True,
        )
        self._task = self._progress.add_task("", total=None)

    def __enter__(self) -> "_Bars":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def step(self, text: str) -> None:
        self._progress.update(self._task, description=text)

    def total(self, count: int) -> None:
        self._progress.update(self._task, total=count, completed=0)

    def sent(self, count: int) -> None:
        self._progress.advance(self._task, count)

    def is_at(self, count: int, total: int) -> None:
        self._progress.update(self._task, completed=count, total=total)
