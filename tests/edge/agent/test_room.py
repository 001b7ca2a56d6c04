"""The survey before an update over the air: where it finds room on a littlefs, there is room, to the last block."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from vicinal_tools.stage import stage_agent

MICROPYTHON = Path(__file__).parents[3] / ".tools" / "micropython" / "micropython"
PROGRAM = """
import json, os, vfs
from hashlib import sha256
from vicinal.release import File
from vicinal_edge.agent.slots import Slots
from vicinal_edge.agent.update_files import UpdateFiles

BLOCK, COUNT = 4096, 160

class Flash:
    def __init__(self):
        self.data = bytearray(BLOCK * COUNT)
    def readblocks(self, n, buf, offset=0):
        at = n * BLOCK + offset
        buf[:] = self.data[at:at + len(buf)]
    def writeblocks(self, n, buf, offset=0):
        at = n * BLOCK + offset
        self.data[at:at + len(buf)] = buf
    def ioctl(self, what, value):
        return {4: COUNT, 5: BLOCK}.get(what, 0)

with open("names.json") as file:
    release = [File(name, size, sha256(bytes(size)).digest()) for name, size in json.loads(file.read())]

def update(ballast, force):
    # Gives what the survey says, and whether all of it was written.
    flash = Flash()
    vfs.VfsLfs2.mkfs(flash)
    vfs.mount(vfs.VfsLfs2(flash), "/flash")
    try:
        os.mkdir("/flash/a")
        os.mkdir("/flash/b")
        slots = Slots("/flash")
        slots.disk.write("/flash/a/agent.json", bytes(3000))
        slots.disk.write("/flash/a/release.json", b"{}")
        slots.disk.write("/flash/ballast", bytes(ballast))
        assert slots.begin() == "a"
        files = UpdateFiles(slots)
        files.begin_manifest()
        files.write(b"{}\\n")
        for one in release:
            files.write(json.dumps([one.name, one.size, "0" * 64]).encode() + b"\\n")
        files.close()
        free = files.free()
        left = free - sum([files.room_of(one) for one in release])
        if left < 0 and not force:
            return left, False
        try:
            files.clear()
            for one in release:
                files.begin(one.name)
                files.write(bytes(one.size))
                files.close()
            files.seal("2", iter(release))
            files.switch()
        except OSError as error:
            if error.errno != 28:
                raise
            return left, False
        return left, True
    finally:
        vfs.umount("/flash")

most = 0
for blocks in range(60, COUNT):
    left, done = update(blocks * BLOCK, False)
    if left < 0:
        break
    assert done, (blocks, left)
    most = blocks
more = most
while update((more + 1) * BLOCK, True)[1]:
    more += 1
print(most, more)
"""


@pytest.mark.micropython
@pytest.mark.spec("AGENT-20")
def test_what_is_found_to_have_room_has_it(tmp_path: Path) -> None:
    staged = stage_agent(tmp_path / "tree")
    names = sorted((file.path.as_posix(), file.staged_bytes) for file in staged)[::2]
    (tmp_path / "names.json").write_text(json.dumps(names))
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [MICROPYTHON, "-X", "heapsize=16M", "program.py"],
        cwd=tmp_path,
        env={**os.environ, "MICROPYPATH": f".frozen:{tmp_path / 'tree' / 'lib'}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    most, more = map(int, done.stdout.split())
    # What it leaves out of caution is small beside what it is about, some 60 blocks.
    assert 60 < most <= more < most + 16, done.stdout
