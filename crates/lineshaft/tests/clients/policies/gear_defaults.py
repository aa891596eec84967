"""Defaults by policy through gear. The server has the policies of the test defaults."""

import time

import gear
from gear_members import connected

client, worker = connected(gear.Client("client")), connected(gear.Worker("worker"))
worker.registerFunction("urgent")
# A client can ask for high priority, but not for a higher one than that.
client.submitJob(gear.Job(b"urgent", b"high"), background=True, precedence=gear.PRECEDENCE_HIGH)
client.submitJob(gear.Job(b"urgent", b"plain"), background=True)
order = [worker.getJob(), worker.getJob()]
assert [job.arguments for job in order] == [b"plain", b"high"], order
for job in order:
    job.sendWorkComplete()

# The job waits for its delay. A client that waits for its job does not.
worker.setFunctions([gear.FunctionRecord(b"later")])
begin = time.monotonic()
client.submitJob(gear.Job(b"later", b"background"), background=True)
client.submitJob(gear.Job(b"later", b"foreground"))
for expected in [b"foreground", b"background"]:
    job = worker.getJob()
    assert job.arguments == expected, job.arguments
    job.sendWorkComplete()
# The server counts whole milliseconds from the beginning of its turn.
assert time.monotonic() - begin > 0.99

# A worker that keeps the job for too long loses it.
worker.setFunctions([gear.FunctionRecord(b"short")])
client.submitJob(gear.Job(b"short", b"again"), background=True)
assert worker.getJob().arguments == b"again"
other = connected(gear.Worker("other"))
other.registerFunction("short")
job = other.getJob()
assert job.arguments == b"again", job.arguments
job.sendWorkComplete()
