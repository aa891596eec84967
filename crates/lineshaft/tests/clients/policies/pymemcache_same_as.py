"""Two names of one queue through pymemcache. The server has the policies of the test same_as. A client
of beanstalkd has put a job into `send_mail`, and a worker of Gearman has done all others."""

import os

from pymemcache.client.base import Client

connection = Client(
    ("127.0.0.1", int(os.environ["KESTREL_PORT"])),
    default_noreply=False,
    timeout=30,
    connect_timeout=10,
)

assert connection.get("send_mail") == b"from send_mail"
assert connection.get("mail") is None
assert connection.set("send_mail", b"item")
assert connection.get("mail") == b"item"
assert connection.set("mail", b"item")
assert connection.get("send_later") == b"item"

# A child of the other name gets what the queue gets.
assert connection.get("send_mail+audit") is None
assert connection.set("mail", b"both")
assert connection.get("mail+audit") == b"both"
assert connection.get("send_mail") == b"both"
