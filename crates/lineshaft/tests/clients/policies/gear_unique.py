"""Unique jobs through gear. The server has the policies of the test unique."""

import os
import time

import gear

PORT = int(os.environ["GEARMAN_PORT"])


def connected(member):
    member.addServer("127.0.0.1", PORT)
    member.waitForServer(20)
    return member


def until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)


client, worker = connected(gear.Client("client")), connected(gear.Worker("worker"))
# Each has a key of its own for Gearman, but the same value in the body.
first = gear.Job(b"send_mail", b'{"to": "ann", "text": "hello"}', unique=b"1")
second = gear.Job(b"send_mail", b'{"to": "ann", "text": "again"}', unique=b"2")
client.submitJob(first, background=True)
client.submitJob(second)
assert first.handle == second.handle, (first.handle, second.handle)

# The client that waits gets the result of the first job.
worker.registerFunction("send_mail")
job = worker.getJob()
assert job.arguments == first.arguments, job.arguments
job.sendWorkComplete(b"sent")
until(lambda: second.complete)
assert second.data == [b"sent"], second.data

refused = gear.Job(b"refuse", b"once", unique=b"2")
client.submitJob(gear.Job(b"refuse", b"once", unique=b"1"), background=True)
try:
    client.submitJob(refused, background=True, timeout=1)
except Exception:
    pass
assert not refused.handle, refused.handle
