"""Retries and dead letters through pymemcache. The server has the policies of the test dead_letters."""

import os

from pymemcache.client.base import Client

connection = Client(
    ("127.0.0.1", int(os.environ["KESTREL_PORT"])),
    default_noreply=False,
    timeout=30,
    connect_timeout=10,
)


def get(key):
    # Its get() does not know the options of Kestrel.
    return connection.raw_command(b"get " + key, b"END\r\n")


def item(queue):
    return b"VALUE %s 0 5\r\nhello\r\n" % queue


assert connection.set("work", b"hello")
# The first failure delays the item, the second one makes it a dead letter.
assert get(b"work/open") == item(b"work")
assert get(b"work/abort") == b""
assert get(b"work") == b""
assert get(b"work/open/t=20000") == item(b"work")
assert get(b"work/abort") == b""
assert get(b"work/t=300") == b""
assert get(b"dead.work/open") == item(b"dead.work")
assert get(b"dead.work/close") == b""
assert get(b"dead.work") == b""
