"""Two hosts on this machine: network namespaces with a cable between them."""

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

_ADDRESSES = ("192.0.2.1", "192.0.2.2")  # of a network that is reserved for examples
# Files are mounted in a namespace of the command's own, which ends with it.
_BEGIN = """
hostname "$0"
mount --bind "$NAMES" /etc/hosts
mount --bind /dev/null /etc/resolv.conf
if [ -n "$HIDDEN" ]; then mount -t tmpfs none "$HIDDEN"; fi
exec "$@"
"""


class Hosts:
    """Two hosts that share all files and reach nothing but each other.

    Args:
        names: Their names, which are those of the namespaces.
        listing: A file to write, in which they find each other's addresses.
    """

    def __init__(self, names: Sequence[str], listing: Path) -> None:
        self.names, self.addresses, self.listing = names, _ADDRESSES, listing

    def connect(self) -> None:
        """Make the namespaces and the cable, whose ends are called ``cable``."""
        first, second = self.names
        pairs = [("127.0.0.1", "localhost"), *zip(self.addresses, self.names, strict=True)]
        self.listing.write_text("".join(f"{address} {name}\n" for address, name in pairs))
        for name in self.names:
            _ip("netns", "add", name)
        _ip(
            *("link", "add", "cable", "netns", first, "type", "veth"),
            *("peer", "name", "cable", "netns", second),
        )
        for name, address in zip(self.names, self.addresses, strict=True):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
            for device in ("lo", "cable"):
                _ip("-n", name, "link", "set", device, "up")

    def disconnect(self) -> None:
        """Delete the namespaces, and with them the cable."""
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)

    def start(
        self, number: int, command: Sequence[str], *, hidden: Path | None = None
    ) -> subprocess.Popen[str]:
        """Start a command on a host, where a folder may be hidden behind an empty one."""
        name = self.names[number]
        inside = ["ip", "netns", "exec", name, "unshare", "--uts", "--mount", "sh", "-c", _BEGIN]
        variables = {"NAMES": str(self.listing), "HIDDEN": str(hidden or "")}
        return subprocess.Popen(
            [*inside, name, *command], text=True, env=os.environ | variables,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip


@pytest.fixture
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Two hosts, for as long as a test takes."""
    if os.geteuid() or not shutil.which("ip") or not shutil.which("unshare"):
        pytest.skip("no hosts can be made: root, iproute2 and util-linux are needed")
    token = secrets.token_hex(3)
    names = [f"host{number}-{token}" for number in (1, 2)]
    made = Hosts(names, tmp_path_factory.mktemp("hosts") / "names")
    try:
        try:
            made.connect()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no hosts can be made: {error.stderr.strip()}")
        yield made
    finally:
        made.disconnect()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
