"""A job's whole life through beanstalkc3, which leaves reading YAML to a library."""

import os

import beanstalkc
import yaml

TUBE = "clients-beanstalkc3"
connection = beanstalkc.Connection(
    host="127.0.0.1",
    port=int(os.environ["BEANSTALK_PORT"]),
    parse_yaml=yaml.safe_load,
)
connection.use(TUBE)
connection.watch(TUBE)
connection.ignore("default")

job_id = connection.put("hello", priority=9, ttr=30)

job = connection.reserve(timeout=1)
assert job.jid == job_id
assert job.body == "hello"
job.touch()
job.release(delay=60)
assert connection.peek_delayed().jid == job_id
connection.kick_job(job_id)

job = connection.reserve(timeout=0)
job.bury()
assert connection.kick(2) == 1

job = connection.reserve(timeout=0)
job.delete()
assert connection.reserve(timeout=0) is None

statistics = connection.stats_tube(TUBE)
assert statistics["name"] == TUBE, statistics
assert statistics["total-jobs"] == 1, statistics
assert connection.watching() == [TUBE]
assert connection.using() == TUBE
connection.pause_tube(TUBE, 0)
assert connection.stats()["cmd-use"] > 0
connection.close()
