"""Puts that wait for room, through greenstalk. The server has the policies of the test blocked."""

import os
import threading
import time

import greenstalk

ADDRESS = ("127.0.0.1", int(os.environ["BEANSTALK_PORT"]))

producer = greenstalk.Client(ADDRESS, use="long")
worker = greenstalk.Client(ADDRESS, watch=["long"])
first = producer.put("first")
ids = []
thread = threading.Thread(target=lambda: ids.append(producer.put("second")))
thread.start()
thread.join(0.2)
assert thread.is_alive(), "the queue is full"
assert worker.reserve(timeout=10).id == first
thread.join(30)
job = worker.reserve(timeout=10)
assert [job.id] == ids and job.body == "second", (job, ids)

with greenstalk.Client(ADDRESS, use="short") as client:
    client.put("first")
    begin = time.monotonic()
    try:
        client.put("second")
        raise AssertionError("the queue stays full")
    except greenstalk.DrainingError:
        # The server counts whole milliseconds, rounded down, so a wait can be almost one shorter.
        assert time.monotonic() - begin >= 0.299
