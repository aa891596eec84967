"""Rates and concurrency through pymemcache. The server has the policies of the test gates."""

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


def item(queue):
    return b"VALUE %s 0 5\r\nhello\r\n" % queue


def export(body):
    return b"VALUE export_items 0 5\r\n%s\r\n" % body


begin = time.monotonic()
holder, other = connect(), connect()
for _ in range(3):
    assert holder.set("fetch", b"hello")
for _ in range(3):
    assert get(holder, b"fetch/t=20000") == item(b"fetch")
assert time.monotonic() - begin > 1.49

for _ in range(3):
    assert holder.set("few_items", b"hello")
assert get(holder, b"few_items/open") == item(b"few_items")
assert get(other, b"few_items") == b""
# Each of these requests ends an open read and begins another one.
assert get(holder, b"few_items/close/open") == item(b"few_items")
assert get(other, b"few_items/t=100") == b""
assert get(holder, b"few_items/close") == b""
assert get(other, b"few_items/t=20000") == item(b"few_items")

# One job of each customer at one time. Other customers do not wait.
for body in (b"ada-1", b"ada-2", b"bob-1"):
    assert holder.set("export_items", body)
assert get(holder, b"export_items/open") == export(b"ada-1")
assert get(other, b"export_items/open") == export(b"bob-1")
assert get(other, b"export_items/close/open") == b""
assert get(holder, b"export_items/close/open") == export(b"ada-2")
assert get(holder, b"export_items/close") == b""


def step(body):
    return b"VALUE step_items 0 5\r\n%s\r\n" % body


# The steps of each order, one after the other, also while one of them waits for its retry.
for body in (b"ada-1", b"ada-2", b"bob-1"):
    assert holder.set("step_items", body)
assert get(holder, b"step_items/open") == step(b"ada-1")
assert get(holder, b"step_items/abort") == b""
assert get(other, b"step_items") == step(b"bob-1")
assert get(other, b"step_items") == b""
assert get(holder, b"step_items/t=20000/open") == step(b"ada-1")
assert get(other, b"step_items") == b""
assert get(holder, b"step_items/close") == b""
assert get(other, b"step_items") == step(b"ada-2")

# One customer has a backlog. The others do not wait for all of it.
for body in (b"ada-1", b"ada-2", b"ada-3", b"ada-4", b"bob-1", b"bob-2"):
    assert holder.set("mail_items", body)
for wanted in (b"ada-1", b"ada-2", b"bob-1", b"ada-3", b"ada-4", b"bob-2"):
    assert get(holder, b"mail_items") == b"VALUE mail_items 0 5\r\n%s\r\n" % wanted
