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
