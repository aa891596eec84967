"""Retries and dead letters through gear. The server has the policies of the test dead_letters."""

import time

import gear
from gear_members import connected

client, worker = connected(gear.Client("client")), connected(gear.Worker("worker"))
worker.registerFunction("send_mail")
client.submitJob(gear.Job(b"send_mail", b"hello"), background=True)
# The first failure delays the job, the second one makes it a dead letter.
worker.getJob().sendWorkFail()
job = worker.getJob()
assert job.arguments == b"hello", job.arguments
job.sendWorkWarning(b"no route to host")
job.sendWorkFail()
worker.setFunctions([gear.FunctionRecord(b"dead.send_mail")])
job = worker.getJob()
assert (job.name, job.arguments) == ("dead.send_mail", b"hello"), (job.name, job.arguments)
job.sendWorkComplete()

# For a job in the foreground, the policy does not apply: its client hears of the first failure.
worker.setFunctions([gear.FunctionRecord(b"send_mail")])
failing = gear.Job(b"send_mail", b"now")
client.submitJob(failing)
worker.getJob().sendWorkFail()
while not failing.complete:
    time.sleep(0.01)
assert failing.failure
