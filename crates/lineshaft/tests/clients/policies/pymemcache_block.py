"""Sets that wait for room, through pymemcache. The server has the policies of the test blocked."""

import os
import threading
import time

from pymemcache.client.base import Client


def connected():
    return Client(
        ("127.0.0.1", int(os.environ["KESTREL_PORT"])),
        default_noreply=False,
        timeout=30,
        connect_timeout=10,
    )


producer, worker = connected(), connected()
assert producer.set("long", b"first")
stored = []
thread = threading.Thread(target=lambda: stored.append(producer.set("long", b"second")))
thread.start()
thread.join(0.2)
assert thread.is_alive(), "the queue is full"
assert worker.get("long") == b"first"
thread.join(30)
assert stored == [True], stored
assert worker.get("long") == b"second"

assert producer.set("short", b"first")
begin = time.monotonic()
assert not producer.set("short", b"second")
# The server counts whole milliseconds, rounded down, so a wait can be almost one shorter.
assert time.monotonic() - begin >= 0.299
assert worker.get("short") == b"first"
assert worker.get("short") is None
