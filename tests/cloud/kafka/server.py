"""A real Kafka for the tests: a single node in KRaft mode, in a folder of its own, on free ports of this machine.

with Kafka(folder) as server:
    server.servers                  127.0.0.1:40123
    server.kill()                   as a crash would
    server.start()                  again, with what it has on disk
"""

import shutil
import subprocess
from pathlib import Path

import pytest
from edge.servers import Server, free_port
from jars import TOOLS, Missing, jars

__all__ = ["Kafka"]

# Minutes of life, and little to do: the better compiler and the parallel collector would not earn what they cost.
FRUGAL = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"]
CLUSTER = "5L6g3nShT-eMCtK--X86sw"


def _java(main: str, *arguments: str) -> list[str]:
    try:
        found = jars("kafka", Path(__file__).with_name("kafka.pom.xml"), "kafka_*.jar")
    except Missing as error:
        pytest.skip(f"KAFKA TESTS SKIPPED: {error}")
    return ["java", *FRUGAL, "-cp", f"{found[0].parent}/*", main, *arguments]


class Kafka(Server):
    package = "kafka"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._controller = free_port()

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def configure(self) -> list[str]:
        file = self.folder / "server.properties"
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller}",
            "listeners": f"PLAINTEXT://{self.servers},CONTROLLER://127.0.0.1:{self._controller}",
            "advertised.listeners": f"PLAINTEXT://{self.servers}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self.folder / "data",
            # Of one node, and quick to start.
            "default.replication.factor": 1,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "log.cleaner.dedupe.buffer.size": 4 << 20,
            "num.network.threads": 2,
            "num.io.threads": 2,
        }
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        if not (self.folder / "data").exists():
            self._format(file)
        return _java("kafka.Kafka", str(file))

    def _format(self, file: Path) -> None:
        """A Java of its own takes seconds for it: what it has written is kept for the next time."""
        kept = TOOLS / "kafka" / "formatted"
        if not (kept / "meta.properties").exists():
            command = _java("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(file))
            subprocess.run(command, check=True, capture_output=True, timeout=120)
            shutil.copytree(self.folder / "data", kept, dirs_exist_ok=True)
        shutil.copytree(kept, self.folder / "data", dirs_exist_ok=True)
