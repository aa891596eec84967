"""pymemcache, against the server that KESTREL_PORT names.

It must be told to wait for replies: Kestrel never understood noreply. Its get() looks for the key that it sent
among the replies, which an option is no part of, so open reads go by raw_command().
"""
import os

from pymemcache.client.base import Client

ADDRESS = ("127.0.0.1", int(os.environ["KESTREL_PORT"]))


def client():
    return Client(ADDRESS, default_noreply=False, timeout=10, connect_timeout=10)


def item(queue, data):
    return b"VALUE %s 0 %d\r\n%s\r\n" % (queue, len(data), data)


def get(connection, key):
    return connection.raw_command(b"get " + key, b"END\r\n")


def main():
    connection, other = client(), client()
    assert connection.version() == b"2.4.1"
    assert connection.get("work") is None
    assert connection.set("work", b"one")
    assert connection.set("work", "two", expire=60)
    assert connection.set("work", b"\r\n\x00\xff")
    assert connection.set("gone", b"x", expire=-1)
    assert connection.get("gone") is None
    assert connection.get("work") == b"one"

    # Taken, given back by an abort, taken again, closed.
    assert get(connection, b"work/open") == item(b"work", b"two")
    assert get(other, b"work/peek") == item(b"work", b"\r\n\x00\xff")
    assert get(connection, b"work/abort") == b""
    assert get(connection, b"work/open") == item(b"work", b"two")
    assert get(connection, b"work/close/open") == item(b"work", b"\r\n\x00\xff")
    assert get(connection, b"work/close") == b""
    assert get(connection, b"work/t=50") == b""

    # Given back by the end of a connection.
    assert connection.set("work", b"three")
    assert get(other, b"work/open") == item(b"work", b"three")
    assert connection.get("work") is None
    other.close()
    assert get(connection, b"work/t=10000") == item(b"work", b"three")

    # One child for each consumer.
    assert connection.get("news+a") is None
    assert connection.set("news", b"four")
    assert connection.get("news+a") == b"four"
    assert connection.get("news") == b"four"

    numbers = connection.stats()
    assert int(numbers[b"queue_work_total_items"]) == 4, numbers
    assert int(numbers[b"queue_work_items"]) == 0, numbers
    assert numbers[b"queue_news_children"] == b"news+a", numbers
    assert connection.set("work", b"five")
    assert connection.delete("work")
    assert connection.get("work") is None
    assert connection.set_many({"a": b"1", "b": b"2"}) == []
    assert connection.get("a") == b"1"
    connection.quit()


main()
