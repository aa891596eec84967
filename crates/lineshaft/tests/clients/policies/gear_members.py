"""What the scripts of gear in this folder share: connected members, and waits."""

import os
import time

PORT = int(os.environ["GEARMAN_PORT"])
LIMIT_S = 20


def connected(member):
    """A client or a worker, when it is connected."""
    member.addServer("127.0.0.1", PORT)
    member.waitForServer(LIMIT_S)
    return member


def until(condition):
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)
