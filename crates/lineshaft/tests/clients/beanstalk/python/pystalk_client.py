"""A job's whole life through pystalk."""

import os

from pystalk import BeanstalkClient

TUBE = "clients-pystalk"
client = BeanstalkClient("127.0.0.1", int(os.environ["BEANSTALK_PORT"]), auto_decode=True)

inserted = client.put_job_into(TUBE, "hello", pri=7, ttr=30)
client.watchlist = {TUBE}

job = client.reserve_job(1)
assert job.job_data == "hello"
client.release_job(job.job_id, delay=60)
client.use(TUBE)
assert client.peek_delayed().job_id == job.job_id
client.kick_job(job.job_id)

job = client.reserve_job(0)
client.bury_job(job.job_id)
assert [buried.job_id for buried in [client.peek_buried()]] == [job.job_id]
client.kick_jobs(3)

job = client.reserve_job(0)
assert client.stats_job(job.job_id)["kicks"] == 2

client.pause_tube(TUBE, 60)
assert client.stats_tube(TUBE)["pause"] == 60
client.unpause_tube(TUBE)
assert client.stats_tube(TUBE)["pause"] == 0

client.delete_job(job.job_id)
statistics = client.stats_tube(TUBE)
assert statistics["name"] == TUBE, statistics
assert statistics["total-jobs"] == 1, statistics
assert "default" in client.list_tubes()
assert client.stats()["total-jobs"] > 0
client.close()
