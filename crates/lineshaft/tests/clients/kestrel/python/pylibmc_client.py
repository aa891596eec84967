"""pylibmc, which is libmemcached, against the server that KESTREL_PORT names.

It marks a text with flags, which Kestrel forgets: what was text comes back as bytes.
"""
import os
import time

import pylibmc

ADDRESS = "127.0.0.1:" + os.environ["KESTREL_PORT"]


def client():
    return pylibmc.Client([ADDRESS], binary=False)


def main():
    connection, other = client(), client()
    assert connection.get("work") is None
    for data in (b"one", b"two", b"three", b"four", b"x" * 100_000):
        assert connection.set("work", data)
    assert connection.get("work") == b"one"

    assert connection.get("work/open") == b"two"
    assert other.get("work/peek") == b"three"
    assert connection.get("work/abort") is None
    assert connection.get("work/open") == b"two"
    assert connection.get("work/close/open") == b"three"
    assert connection.get("work/close") is None

    assert connection.get("work/open") == b"four"
    connection.disconnect_all()
    # The server may hear of the end after the next request of another connection.
    deadline = time.monotonic() + 10
    while other.get("work/peek") != b"four":
        assert time.monotonic() < deadline
    assert other.get("work/t=2000") == b"four"
    assert other.get("work") == b"x" * 100_000
    assert other.get("work/t=50") is None

    # It shows only what memcached counts too.
    ((_, numbers),) = other.get_stats()
    assert int(numbers["total_items"]) == 5, numbers
    assert int(numbers["curr_items"]) == 0, numbers
    assert numbers["version"] == b"2.4.1", numbers
    assert other.set("work", "five")
    assert other.delete("work")
    assert other.get("work") is None


main()
