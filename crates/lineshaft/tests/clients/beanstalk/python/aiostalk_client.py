"""A job's whole life through aiostalk, and two tasks that wait for each other."""

import asyncio
import os

import aiostalk

TUBE = "clients-aiostalk"
SERVER = ("127.0.0.1", int(os.environ["BEANSTALK_PORT"]))


async def whole_life():
    client = aiostalk.Client(SERVER, use=TUBE, watch=TUBE)
    await client.connect()
    job_id = await client.put("hello", ttr=30)

    job = await client.reserve(timeout=1)
    assert job.id == job_id
    await client.touch(job)
    await client.release(job, delay=60)
    assert (await client.peek_delayed()).id == job_id
    assert await client.kick(5) == 1

    job = await client.reserve(timeout=0)
    await client.bury(job)
    assert await client.kick(1) == 1

    job = await client.reserve_job(job_id)
    assert (await client.stats_job(job))["state"] == "reserved"
    await client.delete(job)
    try:
        await client.reserve(timeout=0)
        raise AssertionError("the tube should be empty")
    except aiostalk.TimedOutError:
        pass

    statistics = await client.stats_tube(TUBE)
    assert statistics["name"] == TUBE, statistics
    assert statistics["total-jobs"] == 1, statistics
    await client.pause_tube(TUBE, 0)
    assert "default" in await client.tubes()
    await client.close()


async def waiting_worker():
    worker = aiostalk.Client(SERVER, use=TUBE, watch=TUBE)
    producer = aiostalk.Client(SERVER, use=TUBE, watch=TUBE)
    await worker.connect()
    await producer.connect()
    waiting = asyncio.create_task(worker.reserve(timeout=10))
    await asyncio.sleep(0.05)
    job_id = await producer.put("awaited")
    job = await waiting
    assert job.id == job_id
    await worker.delete(job)
    await worker.close()
    await producer.close()


async def main():
    await whole_life()
    await waiting_worker()


asyncio.run(main())
