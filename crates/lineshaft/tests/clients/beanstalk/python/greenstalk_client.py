"""A job's whole life through greenstalk."""

import os

import greenstalk

TUBE = "clients-greenstalk"
client = greenstalk.Client(("127.0.0.1", int(os.environ["BEANSTALK_PORT"])), use=TUBE, watch=TUBE)

job_id = client.put("hello", priority=10, ttr=30)
assert client.stats_job(job_id)["state"] == "ready"

job = client.reserve(timeout=1)
assert job.id == job_id
assert job.body == "hello"
client.touch(job)
client.release(job, priority=5, delay=60)
assert client.peek_delayed().id == job_id
client.kick_job(job_id)

job = client.reserve(timeout=0)
client.bury(job)
assert client.peek_buried().body == "hello"
assert client.kick(10) == 1
assert client.peek_ready().id == job_id

job = client.reserve_job(job_id)
client.delete(job)
try:
    client.reserve(timeout=0)
    raise AssertionError("the tube should be empty")
except greenstalk.TimedOutError:
    pass

try:
    client.put("x" * 65_536)
    raise AssertionError("the job should be too big")
except greenstalk.JobTooBigError:
    pass
try:
    client.delete(job)
    raise AssertionError("the job should be gone")
except greenstalk.NotFoundError:
    pass

client.pause_tube(TUBE, 0)
statistics = client.stats_tube(TUBE)
assert statistics["name"] == TUBE, statistics
assert statistics["total-jobs"] == 1, statistics
assert statistics["cmd-pause-tube"] == 1, statistics
assert client.watching() == [TUBE]
assert client.using() == TUBE
assert "default" in client.tubes()
assert client.stats()["max-job-size"] == 65_535
client.close()
