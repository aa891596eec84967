"""The tasks of docs/howto/policies.md through gear. The server has the policies of the page, with shorter
times and smaller numbers: see the test tasks. The variable TASKS names functions of this file."""

import json
import os
import queue
import threading
import time

import gear
from gear_members import connected, until


def worker(function):
    member = connected(gear.Worker("worker"))
    member.registerFunction(function)
    return member


client = connected(gear.Client("client"))


def submit(function, body, **options):
    job = gear.Job(function.encode(), body.encode())
    client.submitJob(job, background=True, **options)
    return job


def expect(member, body):
    job = member.getJob()
    assert job.arguments == body.encode(), job.arguments
    return job


class Waiting:
    """A worker that waits for a job."""

    def __init__(self, member):
        self.jobs = queue.Queue()
        wait = lambda: self.jobs.put(member.getJob())
        threading.Thread(target=wait, daemon=True).start()

    def has_none(self):
        try:
            self.jobs.get(timeout=0.3)
        except queue.Empty:
            return True
        return False

    def job(self):
        return self.jobs.get(timeout=20)


def retry():
    submit("mail", "to ann")
    mail = worker("mail")
    for _ in range(6):
        expect(mail, "to ann").sendWorkFail()
    dead = expect(worker("dead.mail"), "to ann")
    assert dead.name == "dead.mail", dead.name
    dead.sendWorkComplete()
    assert Waiting(worker("mail")).has_none()


def rate():
    begin = time.monotonic()
    member = worker("call-api")
    for _ in range(15):
        submit("call-api", "call")
    for _ in range(15):
        member.getJob().sendWorkComplete()
    # The bucket is empty at first. A token comes each 100 ms.
    assert time.monotonic() - begin > 1.49


def two_of_each_customer():
    for customer, year in (("ada", 1), ("ada", 2), ("ada", 3), ("bob", 1)):
        submit("export", json.dumps({"customer": customer, "year": year}))
    jobs = [worker("export").getJob() for _ in range(3)]
    held = [json.loads(job.arguments) for job in jobs]
    held = [(job["customer"], job["year"]) for job in held]
    assert held == [("ada", 1), ("ada", 2), ("bob", 1)], held
    other = Waiting(worker("export"))
    assert other.has_none()
    jobs[1].sendWorkComplete()
    assert json.loads(other.job().arguments) == {"customer": "ada", "year": 3}


def urgent():
    # A client can ask for high priority, but not for a higher one than that.
    submit("login_code", "high", precedence=gear.PRECEDENCE_HIGH)
    submit("login_code", "plain")
    member = worker("login_code")
    for body in ("plain", "high"):
        expect(member, body).sendWorkComplete()


def unique():
    first = submit("invoice", '{"order": 7, "total": 12}')
    assert submit("invoice", '{"order": 7, "again": true}').handle == first.handle
    assert submit("invoice", '{"order": 8}').handle != first.handle
    member = worker("invoice")
    expect(member, '{"order": 7, "total": 12}').sendWorkComplete()
    expect(member, '{"order": 8}').sendWorkComplete()
    assert submit("invoice", '{"order": 7}').handle != first.handle


def not_again():
    first = submit("reminder", '{"to": "ann"}')
    member = worker("reminder")
    expect(member, '{"to": "ann"}').sendWorkComplete()
    other = Waiting(member)
    assert other.has_none()
    assert submit("reminder", '{"to": "ann"}').handle == first.handle
    assert other.has_none()


def nightly():
    expect(worker("reports.gearman"), '{"kind": "nightly"}').sendWorkComplete()


def weekend():
    submit("calls", "call ann")
    assert Waiting(worker("calls")).has_none()


def stopped():
    submit("sms", "hello")
    assert Waiting(worker("sms")).has_none()


def later():
    begin = time.monotonic()
    submit("survey", "hello")
    expect(worker("survey"), "hello").sendWorkComplete()
    # The server counts whole milliseconds from the beginning of its turn.
    assert time.monotonic() - begin > 0.99


def backlog():
    for number in range(3):
        submit("thumbnails", str(number))
    refused = gear.Job(b"thumbnails", b"too many")
    try:
        client.submitJob(refused, background=True, timeout=1)
    except Exception:
        pass
    assert not refused.handle, refused.handle
    for number in range(4):
        submit("positions", str(number))
    member = worker("positions")
    for number in range(1, 4):
        expect(member, str(number)).sendWorkComplete()


def too_old():
    submit("quotes", "12.50")
    expect(worker("late-quotes"), "12.50").sendWorkComplete()


def hangs():
    submit("resize", "picture")
    hanging, other = worker("resize"), worker("resize")
    expect(hanging, "picture")
    expect(other, "picture").sendWorkComplete()


def result():
    def submitted():
        member = connected(gear.Client("waiting"))
        job = gear.Job(b"thumbnail", b"photo", unique=b"photo 1")
        member.submitJob(job)
        return member, job

    first, _ = submitted()
    member = worker("thumbnail")
    held = expect(member, "photo")
    first.shutdown()
    held.sendWorkComplete(b"small")
    _, again = submitted()
    until(lambda: again.complete)
    assert again.data == [b"small"], again.data


def copy():
    submit("orders", "order 7")
    for function in ("orders", "audit"):
        expect(worker(function), "order 7").sendWorkComplete()


def in_order():
    for customer, step in (("ada", 1), ("ada", 2), ("bob", 1)):
        submit("account", json.dumps({"customer": customer, "step": step}))
    one, other = worker("account"), worker("account")
    first = expect(one, '{"customer": "ada", "step": 1}')
    expect(other, '{"customer": "bob", "step": 1}').sendWorkComplete()
    first.sendWorkFail()
    # While it waits for its retry, its followers wait, too.
    for step in (1, 2):
        expect(other, json.dumps({"customer": "ada", "step": step})).sendWorkComplete()


def in_turns():
    for customer in ("ada", "ada", "ada", "ada", "bob"):
        submit("convert", json.dumps({"customer": customer}))
    member = worker("convert")
    order = []
    for _ in range(5):
        job = member.getJob()
        order.append(json.loads(job.arguments)["customer"])
        job.sendWorkComplete()
    assert "bob" in order[:2], order


def waits():
    for number in range(3):
        submit("pages", str(number))
    producer = connected(gear.Client("producer"))
    last = gear.Job(b"pages", b"3")
    put = threading.Thread(target=producer.submitJob, args=(last, True), daemon=True)
    put.start()
    put.join(0.3)
    assert not last.handle, "the queue is full"
    member = worker("pages")
    for number in range(4):
        expect(member, str(number)).sendWorkComplete()
    put.join(20)
    assert last.handle


def two_names():
    for put_into, take_from in (("invoices", "send_invoice"), ("send_invoice", "invoices")):
        submit(put_into, "invoice 7")
        job = expect(worker(take_from), "invoice 7")
        # Each program sees its own name.
        assert job.name == take_from, job.name
        job.sendWorkComplete()


for task in os.environ["TASKS"].split():
    globals()[task]()
