"""Unique jobs through gear. The server has the policies of the test unique."""

import gear
from gear_members import connected, until

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

# The last submit before the worker gets the job decides about its body.
newest = gear.Job(b"replace", b'{"to": "ann", "text": "again"}', unique=b"2")
client.submitJob(gear.Job(b"replace", b'{"to": "ann"}', unique=b"1"), background=True)
client.submitJob(newest)
worker.registerFunction("replace")
job = worker.getJob()
assert job.arguments == newest.arguments, job.arguments
job.sendWorkComplete(b"sent")
until(lambda: newest.complete)
