"""Rates and concurrency through greenstalk. The server has the policies of the test gates."""

import os
import time

import greenstalk

ADDRESS = ("127.0.0.1", int(os.environ["BEANSTALK_PORT"]))

begin = time.monotonic()
with greenstalk.Client(ADDRESS, use="calls", watch=["calls"]) as client:
    numbers = [client.put("call", ttr=60) for _ in range(3)]
    # The bucket is empty at first. Each token takes half a second.
    for number in numbers:
        job = client.reserve(timeout=20)
        assert job.id == number, job.id
        client.delete(job)
    assert time.monotonic() - begin > 1.49

with (
    greenstalk.Client(ADDRESS, use="few", watch=["few"]) as holder,
    greenstalk.Client(ADDRESS, watch=["few"]) as other,
):
    numbers = [holder.put("one at a time", ttr=60) for _ in range(3)]
    job = holder.reserve(timeout=20)
    try:
        other.reserve(timeout=0)
        raise AssertionError("the only slot is in use")
    except greenstalk.TimedOutError:
        pass
    try:
        other.reserve_job(numbers[2])
        raise AssertionError("the only slot is in use")
    except greenstalk.NotFoundError:
        pass
    holder.delete(job)
    job = other.reserve(timeout=20)
    assert job.id == numbers[1], job.id
    other.release(job)
    # One connection alone needs no pause between two jobs.
    for number in numbers[1:]:
        job = holder.reserve(timeout=0)
        assert job.id == number, job.id
        holder.delete(job)

with greenstalk.Client(ADDRESS, use="exports", watch=["exports"]) as client:
    # One job of each customer at one time. Other customers do not wait.
    for body in ("ada-1", "ada-2", "bob-1"):
        client.put(body, ttr=60)
    first, second = client.reserve(timeout=0), client.reserve(timeout=0)
    assert (first.body, second.body) == ("ada-1", "bob-1"), (first.body, second.body)
    try:
        client.reserve(timeout=0)
        raise AssertionError("the slots of both customers are in use")
    except greenstalk.TimedOutError:
        pass
    client.delete(second)
    client.release(first, delay=30)
    third = client.reserve(timeout=20)
    assert third.body == "ada-2", third.body
    client.delete(third)

with greenstalk.Client(ADDRESS, use="steps", watch=["steps"]) as client:
    # The steps of each order, one after the other, also while one of them is delayed.
    for body in ("ada-1", "ada-2", "bob-1"):
        client.put(body, ttr=60)
    first = client.reserve(timeout=0)
    assert first.body == "ada-1", first.body
    client.release(first, delay=1)
    other = client.reserve(timeout=0)
    assert other.body == "bob-1", other.body
    client.delete(other)
    try:
        client.reserve(timeout=0)
        raise AssertionError("the first step is not done")
    except greenstalk.TimedOutError:
        pass
    first = client.reserve(timeout=20)
    assert first.body == "ada-1", first.body
    client.bury(first)
    second = client.reserve(timeout=20)
    assert second.body == "ada-2", second.body
    client.delete(second)

with greenstalk.Client(ADDRESS, use="mails", watch=["mails"]) as client:
    # One customer has a backlog. The others do not wait for all of it.
    for body in ("ada-1", "ada-2", "ada-3", "ada-4", "ada-5", "bob-1", "bob-2", "cid-1"):
        client.put(body, ttr=60)
    for wanted in ("ada-1", "ada-2", "bob-1", "cid-1", "ada-3", "ada-4", "bob-2", "ada-5"):
        job = client.reserve(timeout=0)
        assert job.body == wanted, (job.body, wanted)
        client.delete(job)

with greenstalk.Client(ADDRESS, use="reports", watch=["reports"]) as client:
    # A job that has waited for half a second comes before a more urgent one.
    client.put("old", priority=500)
    time.sleep(0.6)
    client.put("new", priority=0)
    job = client.reserve(timeout=0)
    assert job.body == "old", job.body
    assert client.stats_job(job)["pri"] == 500
    client.delete(job)
    assert client.reserve(timeout=0).body == "new"
