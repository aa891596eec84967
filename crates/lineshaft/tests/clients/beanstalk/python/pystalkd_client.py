"""A job's whole life through pystalkd."""

import os

from pystalkd import Beanstalkd

TUBE = "clients-pystalkd"
connection = Beanstalkd.Connection("127.0.0.1", int(os.environ["BEANSTALK_PORT"]))
connection.use(TUBE)
connection.watch(TUBE)
connection.ignore("default")

job_id = connection.put("hello", priority=10, delay=0, ttr=30)

job = connection.reserve(timeout=1)
assert job.job_id == job_id
assert job.body == "hello"
job.touch()
job.release(delay=60)
assert connection.peek_delayed().job_id == job_id
assert connection.kick(5) == 1

job = connection.reserve(timeout=0)
job.bury()
assert connection.peek_buried().job_id == job_id
connection.kick_job(job_id)

job = connection.reserve(timeout=0)
assert job.stats()["kicks"] == 2
job.delete()
assert connection.reserve(timeout=0) is None

connection.pause_tube(TUBE, 0)
statistics = connection.stats_tube(TUBE)
assert statistics["name"] == TUBE, statistics
assert statistics["total-jobs"] == 1, statistics
assert connection.using() == TUBE
assert connection.watching() == [TUBE]
assert "default" in connection.tubes()
assert connection.stats()["cmd-put"] > 0
connection.close()
