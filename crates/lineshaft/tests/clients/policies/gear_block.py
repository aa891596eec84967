"""Submits that wait for room, through gear. The server has the policies of the test blocked."""

import threading

import gear
from gear_members import connected

client, worker = connected(gear.Client("client")), connected(gear.Worker("worker"))
first, second = gear.Job(b"long", b"first", b"1"), gear.Job(b"long", b"second", b"2")
client.submitJob(first, background=True)
thread = threading.Thread(target=lambda: client.submitJob(second, background=True))
thread.start()
thread.join(0.2)
assert thread.is_alive() and not second.handle, "the queue is full"
# A job that is there already needs no room.
again = gear.Job(b"long", b"first", b"1")
connected(gear.Client("other")).submitJob(again, background=True)
assert again.handle == first.handle
worker.registerFunction("long")
job = worker.getJob()
assert job.arguments == b"first", job.arguments
thread.join(30)
assert second.handle, "a take makes room"
job.sendWorkComplete()
job = worker.getJob()
assert job.arguments == b"second", job.arguments
job.sendWorkComplete()

client.submitJob(gear.Job(b"short", b"first", b"1"), background=True)
refused = gear.Job(b"short", b"second", b"2")
try:
    client.submitJob(refused, background=True, timeout=5)
except Exception:
    pass
assert not refused.handle, refused.handle
