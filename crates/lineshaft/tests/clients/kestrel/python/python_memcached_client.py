"""python-memcached, against the server that KESTREL_PORT names. It ends its set lines with a blank.

It marks a text with flags, which Kestrel forgets: what was text comes back as bytes.
"""
import os
import time

import memcache

ADDRESS = "127.0.0.1:" + os.environ["KESTREL_PORT"]


def client():
    return memcache.Client([ADDRESS], debug=1, socket_timeout=10)


def main():
    connection, other = client(), client()
    assert connection.get("work") is None
    for data in ("one", "two", "three", "four"):
        assert connection.set("work", data)
    assert connection.set("work", "gone", time=1)
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
    assert other.get("work/t=10000") == b"four"

    ((name, numbers),) = other.get_stats()
    assert name.startswith("127.0.0.1"), name
    assert int(numbers["queue_work_total_items"]) == 5, numbers
    assert int(numbers["queue_work_canceled_transactions"]) == 2, numbers
    assert numbers["version"] == "2.4.1", numbers
    assert other.set("work", "five")
    assert other.delete("work")
    assert other.get("work") is None
    assert other.get("work/t=50") is None


main()
