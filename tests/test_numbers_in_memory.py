import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from numbers_in_memory import WORD, numbers
from nursery import environment

# All their bytes differ, and none of them is 0.
ONE, OTHER = 0x0102030405060708, 0x1112131415161718
WRITER = f"""
import sys, pathlib, numbers_in_memory
_, mine = numbers_in_memory.numbers(pathlib.Path(sys.argv[1]))
while True:
    mine[1], mine[1] = {ONE}, {OTHER}
"""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """A process that writes the one and the other, as fast as it goes."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], env=environment())
    try:
        yield
    finally:
        process.kill()
        process.wait()


def test_nobody_sees_half_a_number(tmp_path: Path) -> None:
    """Else a process that is killed may leave it: the next begins at 0 again, and everything seems to come twice."""
    path = tmp_path / "numbers"
    path.write_bytes(bytes(3 * WORD))
    _, seen = numbers(path)
    seen[1] = ONE
    with writing(path):
        give_up = time.monotonic() + 60
        while seen[1] == ONE:
            assert time.monotonic() < give_up, "it does not write"
        found = {seen[1] for _ in range(500_000)}
    assert found <= {ONE, OTHER}, [hex(one) for one in found]
    assert (seen[0], seen[2]) == (0, 0)
