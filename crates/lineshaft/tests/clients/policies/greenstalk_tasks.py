"""The tasks of docs/howto/policies.md through greenstalk. The server has the policies of the page, with
shorter times and smaller numbers: see the test tasks. The variable TASKS names functions of this file."""

import json
import os
import threading
import time

import greenstalk

ADDRESS = ("127.0.0.1", int(os.environ["BEANSTALK_PORT"]))


def connect(tube):
    return greenstalk.Client(ADDRESS, use=tube, watch=[tube])


def is_empty(client):
    try:
        client.reserve(timeout=0)
    except greenstalk.TimedOutError:
        return True
    return False


def expect(client, body):
    job = client.reserve(timeout=20)
    assert job.body == body, job.body
    return job


def retry():
    with connect("mail") as mail, connect("dead.mail") as dead:
        number = mail.put("to ann", ttr=60)
        for _ in range(6):
            job = mail.reserve(timeout=20)
            assert job.id == number, job.id
            mail.release(job)
        assert dead.reserve(timeout=20).id == number
        assert is_empty(mail)


def redriven():
    with connect("mail") as mail:
        mail.delete(expect(mail, "to ann"))


def rate():
    begin = time.monotonic()
    with connect("call-api") as client:
        for _ in range(15):
            client.put("call", ttr=60)
        for _ in range(15):
            client.delete(client.reserve(timeout=20))
    # The bucket is empty at first. A token comes each 100 ms.
    assert time.monotonic() - begin > 1.49


def two_of_each_customer():
    with connect("export") as client:
        for customer, year in (("ada", 1), ("ada", 2), ("ada", 3), ("bob", 1)):
            client.put(json.dumps({"customer": customer, "year": year}), ttr=60)
        jobs = [client.reserve(timeout=0) for _ in range(3)]
        held = [(json.loads(job.body)["customer"], json.loads(job.body)["year"]) for job in jobs]
        assert held == [("ada", 1), ("ada", 2), ("bob", 1)], held
        assert is_empty(client)
        client.delete(jobs[1])
        assert json.loads(client.reserve(timeout=20).body) == {"customer": "ada", "year": 3}


def unique():
    with connect("invoice") as client:
        first = client.put('{"order": 7, "total": 12}', ttr=60)
        assert client.put('{"order": 7, "total": 12, "again": true}') == first
        assert client.put('{"order": 8}') > first
        job = client.reserve(timeout=0)
        assert client.put('{"order": 7}') == first
        client.delete(job)
        assert client.put('{"order": 7}') > first


def not_again():
    with connect("reminder") as client:
        first = client.put('{"to": "ann"}')
        client.delete(client.reserve(timeout=0))
        assert client.put('{"to": "ann"}') == first
        assert is_empty(client)


def nightly():
    with connect("reports.beanstalk") as client:
        client.delete(expect(client, '{"kind": "nightly"}'))


def weekend():
    with connect("calls") as client:
        client.put("call ann")
        assert is_empty(client)


def stopped():
    with connect("sms") as client:
        client.put("hello")
        assert is_empty(client)


def backlog():
    with connect("thumbnails") as client:
        for number in range(3):
            client.put(str(number))
        try:
            client.put("too many")
            raise AssertionError("the queue is full")
        except greenstalk.DrainingError:
            pass
        expect(client, "0")
    with connect("positions") as client:
        for number in range(4):
            client.put(str(number))
        for number in range(1, 4):
            client.delete(expect(client, str(number)))
        assert is_empty(client)


def too_old():
    with connect("quotes") as client, connect("late-quotes") as late:
        client.put("12.50")
        late.delete(expect(late, "12.50"))
        assert is_empty(client)


def copy():
    with connect("orders") as client, connect("audit") as audit:
        client.put("order 7")
        client.delete(expect(client, "order 7"))
        audit.delete(expect(audit, "order 7"))


def in_order():
    with connect("account") as client:
        for customer, step in (("ada", 1), ("ada", 2), ("bob", 1)):
            client.put(json.dumps({"customer": customer, "step": step}), ttr=60)
        first = client.reserve(timeout=0)
        assert json.loads(first.body) == {"customer": "ada", "step": 1}, first.body
        client.delete(expect(client, '{"customer": "bob", "step": 1}'))
        assert is_empty(client)
        # While it waits for its retry, its followers wait, too.
        client.release(first)
        assert is_empty(client)
        for step in (1, 2):
            client.delete(expect(client, json.dumps({"customer": "ada", "step": step})))


def in_turns():
    with connect("convert") as client:
        for customer in ("ada", "ada", "ada", "ada", "bob"):
            client.put(json.dumps({"customer": customer}), ttr=60)
        order = [json.loads(client.reserve(timeout=0).body)["customer"] for _ in range(5)]
        assert "bob" in order[:2], order
        assert is_empty(client)


def aging():
    with connect("tickets") as client:
        client.put("old", priority=20)
        client.put("urgent", priority=0)
        client.delete(expect(client, "urgent"))
        # The number falls by 1 each 10 ms.
        time.sleep(0.3)
        client.put("new and urgent", priority=0)
        expect(client, "old")


def waits():
    with connect("pages") as client, connect("pages") as producer:
        for number in range(3):
            client.put(str(number))
        put = threading.Thread(target=producer.put, args=("3",), daemon=True)
        put.start()
        put.join(0.3)
        assert put.is_alive(), "the queue is full"
        for number in range(4):
            client.delete(expect(client, str(number)))
        put.join(20)
        assert not put.is_alive()


def two_names():
    with connect("invoices") as producer, connect("send_invoice") as worker:
        producer.put("invoice 7")
        worker.delete(expect(worker, "invoice 7"))
        worker.put("invoice 8")
        producer.delete(expect(producer, "invoice 8"))


for task in os.environ["TASKS"].split():
    globals()[task]()
