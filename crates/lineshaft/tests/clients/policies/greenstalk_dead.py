"""Retries and dead letters through greenstalk. The server has the policies of the test dead_letters."""

import os

import greenstalk

ADDRESS = ("127.0.0.1", int(os.environ["BEANSTALK_PORT"]))

with greenstalk.Client(ADDRESS, use="mail", watch=["mail"]) as client:
    number = client.put("hello", priority=7, ttr=60)
    # The first failure delays the job, the second one makes it a dead letter.
    client.release(client.reserve(timeout=0), priority=7)
    assert client.stats_job(number)["state"] == "delayed"
    job = client.reserve(timeout=20)
    assert job.id == number, job.id
    client.release(job, priority=7)
    try:
        client.reserve(timeout=0)
        raise AssertionError("it is dead")
    except greenstalk.TimedOutError:
        pass
    stats = client.stats_job(number)
    assert (stats["tube"], stats["state"], stats["pri"]) == ("dead.mail", "ready", 7), stats
    # It is a job like others for the client of that queue, and fails there without an end.
    client.watch("dead.mail")
    for _ in range(3):
        job = client.reserve(timeout=20)
        assert (job.id, job.body) == (number, "hello"), job
        client.release(job)
    client.delete(client.reserve(timeout=20))

with greenstalk.Client(ADDRESS, use="buried", watch=["buried"]) as client:
    number = client.put("aside", ttr=60)
    client.release(client.reserve(timeout=0))
    assert client.peek_buried().id == number
    client.kick_job(number)
    assert client.reserve(timeout=0).id == number
