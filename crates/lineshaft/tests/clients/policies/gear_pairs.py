"""Pairs of policies through gear. The server has the policies of the test pairs."""

import threading
import time

import gear
from gear_members import connected, until

client = connected(gear.Client("client"))
one, other = [connected(gear.Worker(name)) for name in ("one", "other")]
for worker in (one, other):
    worker.registerFunction("front")

# Foreground jobs have rates and slots.
begin = time.monotonic()
jobs = [gear.Job(b"front", b"%d" % number) for number in range(3)]
for job in jobs:
    client.submitJob(job)
first = one.getJob()
assert first.arguments == b"0", first.arguments
got = []
threading.Thread(target=lambda: got.append(other.getJob()), daemon=True).start()
time.sleep(0.8)
assert not got, "there is a token, but no slot"
# They have neither retries nor dead letters: their client hears of the first failure.
first.sendWorkFail()
until(lambda: jobs[0].complete)
assert jobs[0].failure
until(lambda: got)
assert got[0].arguments == b"1", got[0].arguments
# The worker of a foreground job is lost. The job comes behind the others, and never dies.
other.shutdown()
for number in (2, 1):
    job = one.getJob()
    assert job.arguments == b"%d" % number, job.arguments
    job.sendWorkComplete(b"done")
    until(lambda: jobs[number].complete)
    assert jobs[number].data == [b"done"], jobs[number].data
# Four hand-outs, and the bucket was empty at first.
assert time.monotonic() - begin > 1.99

# A background job that fails without retries ends.
worker = connected(gear.Worker("plain"))
worker.registerFunction("plain")
failing = gear.Job(b"plain", b"fails")
client.submitJob(failing, background=True)
client.submitJob(gear.Job(b"plain", b"next"), background=True)
worker.getJob().sendWorkFail()
job = worker.getJob()
assert job.arguments == b"next", job.arguments
job.sendWorkComplete()
worker.setFunctions([gear.FunctionRecord(b"plain"), gear.FunctionRecord(b"dead")])
client.submitJob(gear.Job(b"plain", b"last"), background=True)
job = worker.getJob()
assert (job.name, job.arguments) == ("plain", b"last"), (job.name, job.arguments)
job.sendWorkComplete()
