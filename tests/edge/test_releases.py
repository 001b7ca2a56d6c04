"""Releases as files, and as resources of a gateway's CoAP service: to several at once, as the folder changes."""

import asyncio
import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest
from aiocoap import Context, Message
from aiocoap.numbers import codes
from cryptography.hazmat.primitives.asymmetric import ec
from edge.adapters.test_coap import adapter, ask, client, serving

from vicinal import release
from vicinal.errors import LocalProtocolError
from vicinal_edge import releases
from vicinal_edge.agent import update, update_files
from vicinal_edge.releases import Release, Releases
from vicinal_tools.release import public_of, signed

KEY = ec.derive_private_key(0x5EC2E7, ec.SECP256R1())
FILES = {
    "lib/vicinal/__init__.mpy": b"M\x06one",
    "lib/vicinal/event.mpy": b"M\x06" + bytes(range(256)) * 40,
    "lib/empty.mpy": b"",
}


def write(folder: Path, version: str, board: str = "any", back: str | None = None, more: bytes = b"") -> Path:
    path = folder / f"agent-{version}-{board}.release"
    files = FILES | {"lib/more.mpy": b"M\x06" + version.encode() + more}
    path.write_bytes(signed(KEY, version, files, board, back))
    return path


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "_LOOK", 0.0)


def test_a_file(tmp_path: Path) -> None:
    path = write(tmp_path, "0.2.0", "esp32", "0.3")
    found = Release(path)
    assert (found.head.version, found.head.board, found.head.back, found.head.mpy) == ("0.2.0", "esp32", "0.3", 6)
    assert [file.name for file in found.files] == sorted([*FILES, "lib/more.mpy"])
    assert found.is_signed_by(public_of(KEY))
    assert not found.is_signed_by(public_of(ec.generate_private_key(ec.SECP256R1())))
    for data in FILES.values():
        assert found.file(hashlib.sha256(data).digest()) == data
    assert found.file(bytes(32)) is None
    # The same files make the same manifest, whoever signs.
    assert Release(write(tmp_path, "0.2.0", "esp32", "0.3")).manifest == found.manifest
    path.unlink()
    assert found.file(hashlib.sha256(b"").digest()) is None


def test_damaged_files(tmp_path: Path) -> None:
    path = write(tmp_path, "0.2.0")
    good = path.read_bytes()
    for size in (0, 10, 25, 100, 160, 400, len(good) - 1):
        path.write_bytes(good[:size])
        with pytest.raises(LocalProtocolError, match=r"agent-0\.2\.0-any\.release: "):
            Release(path)
    for at in range(len(good) - 400, len(good), 37):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        with pytest.raises(LocalProtocolError, match="damaged"):
            Release(path)
    path.write_bytes(good + b"x")
    with pytest.raises(LocalProtocolError, match="1 bytes after its last file"):
        Release(path)
    with pytest.raises(LocalProtocolError, match="No such file"):
        Release(tmp_path / "none.release")


@pytest.mark.spec("AGENT-19")
def test_a_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = Releases(tmp_path)
    assert found.manifest("esp32", "0.1.0") is None
    for version in ("0.2.0", "0.10.0", "0.9.0"):
        write(tmp_path, version)
    write(tmp_path, "0.10.0", "esp32")
    write(tmp_path, "0.11.0", "esp32s3")

    def version(board: str, running: str | None = None, wanted: str | None = None) -> tuple[str, str] | None:
        manifest = found.manifest(board, running, wanted)
        if manifest is None:
            return None
        one = next(one for one in found.all() if one.signed == manifest)
        return one.head.version, one.head.board

    assert version("esp32", "0.1.0") == ("0.10.0", "esp32")
    assert version("esp32c3", "0.1.0") == ("0.10.0", "any")
    assert version("esp32s3", "0.1.0") == ("0.11.0", "esp32s3")
    assert version("esp32", "0.10.0") is None
    assert version("esp32", "0.10.0", "0.9") == ("0.9.0", "any")
    assert version("esp32", None, "0.11.0") is None
    # What is put there, changed or taken away is noticed.
    path = write(tmp_path, "0.12.0")
    assert version("esp32", "0.10.0") == ("0.12.0", "any")
    path.write_bytes(path.read_bytes()[:-1])
    assert version("esp32", "0.10.0") is None
    assert version("esp32", "0.10.0") is None
    assert len([record for record in caplog.records if "damaged" in record.message]) == 1
    path.unlink()
    assert version("esp32", "0.10.0") is None


async def fetch(context: Context, uri: str) -> Any:
    return await context.request(Message(code=codes.GET, uri=uri)).response


@pytest.mark.spec("AGENT-19")
def test_a_gateway_offers_them(tmp_path: Path) -> None:
    write(tmp_path, "0.2.0")

    async def work() -> None:
        async with serving(tmp_path, releases=str(tmp_path)) as (one, _), client() as context:
            answer = await fetch(context, f"{one.address}/release?board=esp32&version=0.1.0")
            assert answer.payload == Release(tmp_path / "agent-0.2.0-any.release").signed
            # Several fetch at once, each in its own blocks.
            data = FILES["lib/vicinal/event.mpy"]
            path = f"{one.address}/release/{hashlib.sha256(data).hexdigest()}"
            answers = await asyncio.gather(*[fetch(context, path) for _ in range(5)])
            assert [answer.payload for answer in answers] == [data] * 5
            assert (await fetch(context, f"{one.address}/release/{hashlib.sha256(b'').hexdigest()}")).payload == b""
            for path, code, text in (
                ("release?board=esp32&version=0.2.0", codes.NOT_FOUND, "nothing newer for board esp32"),
                ("release?board=esp32&want=0.3.0", codes.NOT_FOUND, "no release 0.3.0 for board esp32"),
                ("release?want=x", codes.BAD_REQUEST, "want one to four numbers"),
                ("release?filter=1", codes.BAD_OPTION, "is not known"),
                ("release/abc", codes.NOT_FOUND, "/release/SHA256"),
                (f"release/{'00' * 32}", codes.NOT_FOUND, "no release here has this file"),
                (f"release/{'00' * 32}/x", codes.NOT_FOUND, "/release/SHA256"),
            ):
                answer = await fetch(context, f"{one.address}/{path}")
                assert (answer.code, text in answer.payload.decode()) == (code, True), answer.payload
            assert one.status()["files of releases"] == 6
            # Withdrawn: what has begun may end, and nothing else begins.
            shutil.move(tmp_path / "agent-0.2.0-any.release", tmp_path / "agent.away")
            answer = await fetch(context, f"{one.address}/release?board=esp32&version=0.1.0")
            assert answer.code == codes.NOT_FOUND
        async with serving(tmp_path) as (one, _), client() as context:
            answer = await fetch(context, f"{one.address}/release?board=esp32")
            assert (answer.code, answer.payload) == (codes.NOT_FOUND, b"this gateway offers no releases")

    asyncio.run(work())


def test_who_has_not_shown_its_address_gets_no_release(tmp_path: Path) -> None:
    write(tmp_path, "0.2.0")

    async def work() -> None:
        async with serving(tmp_path, releases=str(tmp_path), echo="always") as (one, _), client() as context:
            path = f"{one.address}/release/{hashlib.sha256(FILES['lib/vicinal/event.mpy']).hexdigest()}"
            answer = await ask(context, codes.GET, path)
            assert answer.code == codes.UNAUTHORIZED
            answer = await ask(context, codes.GET, path, echo=answer.opt.echo)
            assert answer.code == codes.CONTENT

    asyncio.run(work())


def test_settings(tmp_path: Path) -> None:
    with pytest.raises(LocalProtocolError, match=r"releases is '.*none', which is no folder"):
        adapter(bind="[::]:0", releases=str(tmp_path / "none"))
    with pytest.raises(LocalProtocolError, match="bind is missing"):
        adapter(peers=["coap://127.0.0.1"], releases=str(tmp_path))


def test_limits_that_a_device_has_twice() -> None:
    """A module that is not loaded has none to give."""
    assert (update._SIGNATURE_LINE, update._MAX_MANIFEST) == (release.SIGNATURE_LINE, release.MAX_MANIFEST)
    assert update_files._MAX_LINE == release.MAX_LINE


def test_what_is_asked_for_by_name_is_there_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However lately somebody looked: who puts a release there tells a device to fetch it in the same second."""
    monkeypatch.setattr("vicinal_edge.releases._LOOK", 3600.0)
    found = Releases(tmp_path)
    assert found.manifest("esp32", None, "0.2.0") is None
    write(tmp_path, "0.2.0")
    assert found.manifest("esp32", "0.1.0") is None
    assert found.manifest("esp32", None, "0.2.0") is not None
