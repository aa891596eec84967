"""Unique jobs through greenstalk. The server has the policies of the test unique."""

import os

import greenstalk

ADDRESS = ("127.0.0.1", int(os.environ["BEANSTALK_PORT"]))

with greenstalk.Client(ADDRESS, use="send_mail", watch=["send_mail"]) as client:
    first = client.put('{"to": "ann", "text": "hello"}', ttr=60)
    assert client.put('{"to": "ann", "text": "again"}', ttr=60) == first
    other = client.put('{"to": "bob"}', delay=60)
    assert client.put('{"to": "bob"}') == other
    # A worker has the job. It still has its key.
    job = client.reserve(timeout=0)
    assert job.id == first, job.id
    assert client.put('{"to": "ann"}') == first
    client.delete(job)
    assert client.put('{"to": "ann"}') > other

with greenstalk.Client(ADDRESS, use="refuse", watch=["refuse"]) as client:
    client.put("once")
    try:
        client.put("once")
        raise AssertionError("it is there already")
    except greenstalk.DrainingError:
        pass
    # The job counts until somebody takes it.
    client.reserve(timeout=0)
    client.put("once")

with greenstalk.Client(ADDRESS, use="replace", watch=["replace"]) as client:
    first = client.put('{"to": "ann", "text": "hello"}')
    other = client.put('{"to": "bob"}')
    assert client.put('{"to": "ann", "text": "again"}', priority=0) == first
    job = client.reserve(timeout=0)
    assert job.id == first and job.body == '{"to": "ann", "text": "again"}', job
    # A worker has the job, so it keeps its body.
    assert client.put('{"to": "ann", "text": "too late"}') == first
    assert client.peek(first).body == job.body
    client.delete(job)
    assert client.reserve(timeout=0).id == other
