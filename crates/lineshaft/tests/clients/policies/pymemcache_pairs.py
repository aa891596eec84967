"""Pairs of policies through pymemcache. The server has the policies of the test pairs."""

import os
import time

from pymemcache.client.base import Client


def connect():
    return Client(
        ("127.0.0.1", int(os.environ["KESTREL_PORT"])),
        default_noreply=False,
        timeout=30,
        connect_timeout=10,
    )


def get(connection, key):
    # Its get() does not know the options of Kestrel.
    return connection.raw_command(b"get " + key, b"END\r\n")


def item(queue, body):
    return b"VALUE %s 0 1\r\n%s\r\n" % (queue, body)


readers = [connect() for _ in range(3)]
for child in (b"parent+plain", b"parent+wide"):
    assert get(readers[0], child) == b""
for body in (b"a", b"b", b"c"):
    assert readers[0].set("parent", body)
# A child has the limits of its parent. Its own come over them.
for child, slots in ((b"parent+plain", 1), (b"parent+wide", 2)):
    for place, reader in enumerate(readers):
        wanted = item(child, b"abc"[place : place + 1]) if place < slots else b""
        assert get(reader, child + b"/open") == wanted, child
    # The first failure is the last one, as the parent's policy says.
    assert get(readers[0], child + b"/abort") == b""
    assert get(readers[0], b"dead/t=20000") == item(b"dead", b"a")
    slot = readers[0] if slots == 1 else readers[2]
    assert get(slot, child + b"/open/t=20000") == item(child, b"b" if slots == 1 else b"c")

# A retry takes a token.
begin = time.monotonic()
assert readers[0].set("retried", b"x")
for _ in range(3):
    assert get(readers[0], b"retried/open/t=20000") == item(b"retried", b"x")
    assert get(readers[0], b"retried/abort") == b""
assert time.monotonic() - begin > 1.49

# A full queue takes back what it has handed out, and refuses others.
for queue in (b"full", b"full_retried"):
    assert readers[0].set(queue, b"x")
    assert get(readers[0], queue + b"/open") == item(queue, b"x")
    assert readers[1].set(queue, b"y")
    assert get(readers[0], queue + b"/abort") == b""
    assert not readers[1].set(queue, b"z")
    assert get(readers[1], queue) == item(queue, b"x")
    assert get(readers[1], queue) == item(queue, b"y")
