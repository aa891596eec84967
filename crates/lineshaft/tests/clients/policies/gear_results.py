"""Kept results through gear. The server has the policies of the test results."""

import gear
from gear_members import connected, until

client, worker = connected(gear.Client("client")), connected(gear.Worker("worker"))
worker.registerFunction("resize")
job = gear.Job(b"resize", b"photo", unique=b"photo 1")
client.submitJob(job)
held = worker.getJob()
held.sendWorkStatus(9, 10)
held.sendWorkComplete(b"small")
until(lambda: job.complete)
client.shutdown()

# Another client asks for the job. It is no longer known, but its last progress is.
again = connected(gear.Client("again"))
asked = gear.Job(b"resize", b"photo", unique=b"photo 1")
asked.handle = job.handle
connection = again.getConnection()
connection.related_jobs[asked.handle] = asked
packet = gear.Packet(gear.constants.REQ, gear.constants.GET_STATUS, job.handle)
again.sendPacket(packet, connection)
until(lambda: asked.denominator is not None and int(asked.denominator) > 0)
assert (bool(asked.known), bool(asked.running)) == (False, False), asked
assert (int(asked.numerator), int(asked.denominator)) == (9, 10), asked

# It submits the job again, within the window of its key, and has the result at once.
later = gear.Job(b"resize", b"photo", unique=b"photo 1")
again.submitJob(later)
until(lambda: later.complete)
assert later.handle == job.handle, (later.handle, job.handle)
assert later.data == [b"small"], later.data
