"""Rates and concurrency through gear. The server has the policies of the test gates."""

import threading
import time

import gear
from gear_members import connected

begin = time.monotonic()
client, worker = connected(gear.Client("client")), connected(gear.Worker("worker"))
worker.registerFunction("call_api")
# Foreground jobs count, too. The worker sleeps until there is a token.
for number in range(3):
    client.submitJob(gear.Job(b"call_api", b"call"), background=number > 0)
for _ in range(3):
    worker.getJob().sendWorkComplete()
assert time.monotonic() - begin > 1.49

workers = [connected(gear.Worker(name)) for name in ("one", "other")]
for one in workers:
    one.registerFunction("few_jobs")
for _ in range(2):
    client.submitJob(gear.Job(b"few_jobs", b"one at a time"), background=True)
got = []
lock = threading.Lock()


def work(one):
    job = one.getJob()
    with lock:
        got.append((one, job))


threads = [threading.Thread(target=work, args=(one,), daemon=True) for one in workers]
for thread in threads:
    thread.start()
while not got:
    time.sleep(0.01)
time.sleep(0.3)
assert len(got) == 1, got
got[0][1].sendWorkComplete()
for thread in threads:
    thread.join(20)
assert len(got) == 2, got
got[1][1].sendWorkComplete()

# One job of each customer at one time. Other customers do not wait.
for body in (b"ada-1", b"ada-2", b"bob-1"):
    client.submitJob(gear.Job(b"export_job", body), background=True)
ada, bob = [connected(gear.Worker(name)) for name in ("ada", "bob")]
for one in (ada, bob):
    one.registerFunction("export_job")
first, second = ada.getJob(), bob.getJob()
assert (first.arguments, second.arguments) == (b"ada-1", b"bob-1"), (first, second)
second.sendWorkComplete()
asks = threading.Thread(target=lambda: got.append((bob, bob.getJob())), daemon=True)
asks.start()
time.sleep(0.3)
assert len(got) == 2, got
first.sendWorkComplete()
asks.join(20)
assert got[2][1].arguments == b"ada-2", got
got[2][1].sendWorkComplete()

# The steps of each order, one after the other, also while one of them waits for its retry.
for body in (b"ada-1", b"ada-2", b"bob-1"):
    client.submitJob(gear.Job(b"step_job", body), background=True)
steps = connected(gear.Worker("steps"))
steps.registerFunction("step_job")
begin = time.monotonic()
for wanted in (b"ada-1", b"bob-1", b"ada-1", b"ada-2"):
    job = steps.getJob()
    assert job.arguments == wanted, (job.arguments, wanted)
    if wanted == b"ada-1" and time.monotonic() - begin < 0.9:
        job.sendWorkFail()
    else:
        job.sendWorkComplete()
assert time.monotonic() - begin > 0.99

# One customer has a backlog. The others do not wait for all of it.
for body in (b"ada-1", b"ada-2", b"ada-3", b"ada-4", b"bob-1", b"bob-2"):
    client.submitJob(gear.Job(b"send_mail", body), background=True)
mails = connected(gear.Worker("mails"))
mails.registerFunction("send_mail")
for wanted in (b"ada-1", b"ada-2", b"bob-1", b"ada-3", b"ada-4", b"bob-2"):
    job = mails.getJob()
    assert job.arguments == wanted, (job.arguments, wanted)
    job.sendWorkComplete()
