"""Unique jobs through pymemcache. The server has the policies of the test unique."""

import os

from pymemcache.client.base import Client

connection = Client(
    ("127.0.0.1", int(os.environ["KESTREL_PORT"])),
    default_noreply=False,
    timeout=30,
    connect_timeout=10,
)

FIRST = b'{"to": "ann", "n": 1}'

assert connection.set("send_mail", FIRST)
assert connection.set("send_mail", b'{"to": "ann", "n": 2}')
assert connection.get("send_mail") == FIRST
assert connection.get("send_mail") is None
# It is done, so the next one is new.
assert connection.set("send_mail", FIRST)
assert connection.get("send_mail") == FIRST

assert connection.set("refuse", b"once")
assert not connection.set("refuse", b"once")
assert connection.get("refuse") == b"once"

assert connection.set("replace", b'{"to": "ann", "n": 1}')
assert connection.set("replace", b'{"to": "bob"}')
assert connection.set("replace", b'{"to": "ann", "n": 2}')
assert connection.get("replace") == b'{"to": "ann", "n": 2}'
assert connection.get("replace") == b'{"to": "bob"}'
assert connection.get("replace") is None
