"""Real servers of others for the tests of the edge, each in a folder of its own and on a free port of this machine.

    with Mosquitto(folder) as server:
        server.address                  mqtt://127.0.0.1:40123
        server.kill()                   as a power cut would
        server.start()                  again, on the same port

What is not installed is skipped, and the test says so.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Self

import pytest

__all__ = ["ActiveMq", "Mosquitto", "free_port"]

PATIENCE = 120.0
"""seconds within which a server has to listen; a machine under load is slow"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """A process that listens on `port`. Subclasses write their configuration and say how they are started."""

    scheme = ""
    package = ""
    """of Debian, which brings it"""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def address(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def configure(self) -> list[str]:
        """Writes what the server reads, and gives the command that starts it."""
        raise NotImplementedError

    def start(self) -> None:
        assert self._process is None, "it runs already"
        command = self.configure()  # may have to fetch it first, which takes its own time
        end = time.monotonic() + PATIENCE
        while True:
            with (self.folder / "log").open("ab") as log:
                self._process = subprocess.Popen(
                    command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
            while self._process.poll() is None:
                if self.listens():
                    return
                if time.monotonic() > end:
                    self.stop()
                    raise AssertionError(f"{self.package} does not listen: {self.log()}")
                time.sleep(0.02)
            # Somebody else may have taken the port meanwhile.
            self._process = None
            if time.monotonic() > end or "in use" not in self.log():
                raise AssertionError(f"{self.package} has ended: {self.log()}")
            self.port = free_port()
            command = self.configure()

    def listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")[-2000:]

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def pause(self) -> None:
        """Its connections stay, and nobody answers. When it returns all threads stand still, not only the first."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        tasks, end = Path(f"/proc/{self._process.pid}/task"), time.monotonic() + PATIENCE
        while any((one / "stat").read_text().rpartition(")")[2].split()[0] != "T" for one in tasks.iterdir()):
            assert time.monotonic() < end
            time.sleep(0.005)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def _program(name: str, package: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        pytest.skip(f"{package.upper()} TESTS SKIPPED: no {name} (apt-get install {package})")
    return found


class Mosquitto(Server):
    """`users` are names and passwords: with them nobody else comes in. `lines` go into its configuration as they are,
    before the listener. `tls` is a pair of files: certificate and key."""

    package = "mosquitto"

    def __init__(
        self,
        folder: Path,
        users: dict[str, str] | None = None,
        lines: tuple[str, ...] = (),
        tls: tuple[Path, Path] | None = None,
    ) -> None:
        super().__init__(folder)
        self.scheme = "mqtt" if tls is None else "mqtts"
        self.users = users or {}
        self.lines = lines
        self.tls = tls

    def configure(self) -> list[str]:
        program = _program("mosquitto", self.package)
        # As root it would become the user mosquitto, who may not read the folder of the test.
        written = [
            "persistence false",
            "set_tcp_nodelay true",
            *(["user root"] if os.getuid() == 0 else []),
            *self.lines,
        ]
        written += [f"listener {self.port} 127.0.0.1", f"allow_anonymous {'false' if self.users else 'true'}"]
        if self.users:
            passwords = self.folder / "passwords"
            passwords.write_text("".join(f"{name}:{secret}\n" for name, secret in self.users.items()))
            passwords.chmod(0o600)
            subprocess.run([_program("mosquitto_passwd", self.package), "-U", passwords], check=True)
            written.append(f"password_file {passwords}")
        if self.tls is not None:
            written += [f"certfile {self.tls[0]}", f"keyfile {self.tls[1]}"]
        file = self.folder / "mosquitto.conf"
        file.write_text("\n".join([*written, ""]))
        return [program, "-c", str(file)]


_ACTIVEMQ_XML = """\
<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans
  http://www.springframework.org/schema/beans/spring-beans.xsd http://activemq.apache.org/schema/core
  http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="b{port}" persistent="{persistent}" useJmx="false"
    useShutdownHook="false" advisorySupport="false" dataDirectory="{folder}/data">
    {plugins}
    <transportConnectors><transportConnector name="stomp" uri="{uri}"/></transportConnectors>
  </broker>
</beans>
"""
_OPENED = ("java.lang", "java.util", "java.net", "java.io", "java.nio", "sun.nio.ch")


class ActiveMq(Server):
    """Debian's, with a STOMP connector and nothing else. It takes two or three seconds to start: share it."""

    scheme = "stomp"
    package = "activemq"
    jar = Path("/usr/share/activemq/bin/activemq.jar")

    def __init__(
        self,
        folder: Path,
        users: dict[str, str] | None = None,
        options: str = "",
        persistent: bool = False,
        tls: Path | None = None,
    ) -> None:
        super().__init__(folder)
        self.users = users or {}
        self.options = options
        """of the STOMP connector, as in its address: transport.maxFrameSize=10000"""
        self.persistent = persistent
        self.tls = tls
        """a PKCS#12 file whose password is `secret`"""
        self.scheme = "stomp" if tls is None else "stomp+ssl"

    def configure(self) -> list[str]:
        if not self.jar.exists():
            pytest.skip("ACTIVEMQ TESTS SKIPPED: no ActiveMQ (apt-get install activemq)")
        java = _program("java", "default-jre-headless")
        users = "".join(
            f'<authenticationUser username="{name}" password="{secret}" groups="users"/>'
            for name, secret in self.users.items()
        )
        plugins = (
            f"<plugins><simpleAuthenticationPlugin><users>{users}</users></simpleAuthenticationPlugin></plugins>"
            if users
            else ""
        )
        file = self.folder / "activemq.xml"
        values: dict[str, Any] = {
            "port": self.port,
            "folder": self.folder,
            "plugins": plugins,
            "persistent": str(self.persistent).lower(),
            "uri": f"{self.scheme}://127.0.0.1:{self.port}?{self.options}".rstrip("?").replace("&", "&amp;"),
        }
        file.write_text(_ACTIVEMQ_XML.format(**values))
        command = [java, "-Xmx256M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        for package in _OPENED:
            command += ["--add-opens", f"java.base/{package}=ALL-UNNAMED"]
        if self.tls is not None:
            command += [f"-Djavax.net.ssl.keyStore={self.tls}", "-Djavax.net.ssl.keyStorePassword=secret"]
            command += ["-Djavax.net.ssl.keyStoreType=PKCS12"]
        command += [f"-Dactivemq.{name}={self.folder}" for name in ("base", "conf", "data")]
        command += [f"-Dactivemq.home={self.jar.parents[1]}", "-jar", str(self.jar), "start", f"xbean:file:{file}"]
        return command
