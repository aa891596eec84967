"""Two names of one function through gear. The server has the policies of the test same_as. A client of
beanstalkd has put a job into the tube `mail`, and one into `send_mail`."""

import gear
from gear_members import connected, until

# The worker calls the function that it has registered, so it must get this name.
worker = connected(gear.Worker("worker"))
worker.registerFunction("send_mail")
job = worker.getJob()
assert job.arguments == b"from mail", job.arguments
assert job.name == "send_mail", job.name
job.sendWorkComplete()

client = connected(gear.Client("client"))
submitted = gear.Job(b"mail", b"from gear", unique=b"1")
client.submitJob(submitted, precedence=gear.PRECEDENCE_HIGH)
job = worker.getJob()
assert job.arguments == submitted.arguments, job.arguments
assert job.name == "send_mail", job.name
job.sendWorkComplete(b"sent")
until(lambda: submitted.complete)
assert submitted.data == [b"sent"], submitted.data
