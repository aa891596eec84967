"""Pairs of policies through greenstalk. The server has the policies of the test pairs."""

import os
import time

import greenstalk

ADDRESS = ("127.0.0.1", int(os.environ["BEANSTALK_PORT"]))

# A retry takes a token, however the attempt before it ended.
begin = time.monotonic()
with (
    greenstalk.Client(ADDRESS, use="retried", watch=["retried"]) as client,
    greenstalk.Client(ADDRESS, watch=["retried"]) as lost,
):
    number = client.put("again", ttr=60)
    job = client.reserve(timeout=20)
    client.release(job)
    job = lost.reserve(timeout=20)
    assert job.id == number, job.id
    lost.close()
    job = client.reserve(timeout=20)
    assert job.id == number, job.id
    assert time.monotonic() - begin > 1.49

# A full queue takes back what it has handed out, with retries and without.
for tube in ("full", "full_retried"):
    with greenstalk.Client(ADDRESS, use=tube, watch=[tube]) as client:

        def refuses(ready):
            try:
                client.put("too much")
                raise AssertionError("the queue is full")
            except greenstalk.DrainingError:
                pass
            end = time.monotonic() + 20
            while client.stats_tube(tube)["current-jobs-ready"] != ready:
                assert time.monotonic() < end, client.stats_tube(tube)
                time.sleep(0.01)

        client.put("first", priority=1, ttr=60)
        refuses(1)
        job = client.reserve(timeout=0)
        client.put("second", priority=9)
        client.release(job, priority=1)
        refuses(2)
        # Its connection is lost.
        lost = greenstalk.Client(ADDRESS, watch=[tube])
        assert lost.reserve(timeout=0).body == "first"
        lost.close()
        refuses(2)
        # Its time is over.
        for _ in range(2):
            client.delete(client.reserve(timeout=0))
        client.put("short", priority=1, ttr=1)
        while True:
            client.reserve(timeout=20)
            try:
                client.put("second", priority=9)
                break
            except greenstalk.DrainingError:
                # This machine is slow: the time was over before the put.
                pass
        refuses(2)

# A dead letter gives its unique key up.
with greenstalk.Client(ADDRESS, use="once", watch=["once"]) as client:
    first = client.put("work", delay=1)
    assert client.put("work") == first
    job = client.reserve(timeout=20)
    assert client.put("work") == first
    client.release(job)
    assert client.stats_job(first)["tube"] == "dead"
    assert client.put("work") != first

# In a strict order, a dead letter lets the next job of its key go.
with greenstalk.Client(ADDRESS, use="ordered", watch=["ordered"]) as client:
    first, second = client.put("ada-1", ttr=60), client.put("ada-2", ttr=60)
    job = client.reserve(timeout=20)
    assert job.id == first, job.id
    try:
        client.reserve(timeout=0)
        raise AssertionError("the first job of the key is under way")
    except greenstalk.TimedOutError:
        pass
    client.release(job)
    assert client.stats_job(first)["tube"] == "dead"
    job = client.reserve(timeout=20)
    assert job.id == second, job.id

# A pause keeps the turns of the keys.
with greenstalk.Client(ADDRESS, use="shared", watch=["shared"]) as client:
    for body in ("ada-1", "ada-2", "bob-1", "bob-2"):
        client.put(body, ttr=60)
    assert client.reserve(timeout=20).body == "ada-1"
    begin = time.monotonic()
    client.pause_tube("shared", 1)
    for body in ("bob-1", "ada-2", "bob-2"):
        job = client.reserve(timeout=20)
        assert job.body == body, job.body
        assert time.monotonic() - begin > 0.99
