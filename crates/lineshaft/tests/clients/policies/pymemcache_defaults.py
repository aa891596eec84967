"""Defaults by policy through pymemcache. The server has the policies of the test defaults."""

import os
import time

from pymemcache.client.base import Client


def connected():
    address = ("127.0.0.1", int(os.environ["KESTREL_PORT"]))
    return Client(address, default_noreply=False, timeout=30, connect_timeout=10)


def get(connection, key):
    # Its get() does not know the options of Kestrel.
    return connection.raw_command(b"get " + key, b"END\r\n")


def item(queue):
    return b"VALUE %s 0 5\r\nhello\r\n" % queue


first, second = connected(), connected()
# The item waits for its delay.
begin = time.monotonic()
assert first.set("later", b"hello")
assert get(first, b"later/t=20000") == item(b"later")
# The server counts whole milliseconds from the beginning of its turn.
assert time.monotonic() - begin > 0.99

# A client that keeps the item open for too long loses it.
assert first.set("short", b"hello")
assert get(first, b"short/open") == item(b"short")
assert get(second, b"short/open/t=20000") == item(b"short")
assert get(second, b"short/close") == b""
assert get(second, b"short") == b""
