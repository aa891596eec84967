"""The tasks of docs/howto/policies.md through pymemcache. The server has the policies of the page, with
shorter times and smaller numbers: see the test tasks. The variable TASKS names functions of this file."""

import os
import threading
import time

from pymemcache.client.base import Client


def connect():
    return Client(
        ("127.0.0.1", int(os.environ["KESTREL_PORT"])),
        default_noreply=False,
        timeout=30,
        connect_timeout=10,
    )


client = connect()


def get(options, connection=client):
    """Reads an item with options of Kestrel, which its get() does not know."""
    reply = connection.raw_command(b"get " + options.encode(), b"END\r\n")
    return reply.split(b"\r\n")[1] if reply else None


def retry():
    assert client.set("mail", b"to ann")
    for _ in range(6):
        assert get("mail/open/t=20000") == b"to ann"
        assert get("mail/abort") is None
    assert get("mail/t=300") is None
    assert get("dead.mail") == b"to ann"


def rate():
    begin = time.monotonic()
    for _ in range(15):
        assert client.set("call-api", b"call")
    for _ in range(15):
        assert get("call-api/t=20000") == b"call"
    # The bucket is empty at first. A token comes each 100 ms.
    assert time.monotonic() - begin > 1.49


def two_of_each_customer():
    def export(customer, year):
        return b'{"customer": "%s", "year": %d}' % (customer, year)

    for customer, year in ((b"ada", 1), (b"ada", 2), (b"ada", 3), (b"bob", 1)):
        assert client.set("export", export(customer, year))
    workers = [connect() for _ in range(4)]
    assert get("export/open", workers[0]) == export(b"ada", 1)
    assert get("export/open", workers[1]) == export(b"ada", 2)
    assert get("export/open", workers[2]) == export(b"bob", 1)
    assert get("export/open", workers[3]) is None
    assert get("export/close", workers[1]) is None
    assert get("export/open/t=20000", workers[3]) == export(b"ada", 3)


def unique():
    assert client.set("invoice", b'{"order": 7, "total": 12}')
    assert client.set("invoice", b'{"order": 7, "again": true}')
    assert get("invoice") == b'{"order": 7, "total": 12}'
    assert get("invoice") is None
    assert client.set("invoice", b'{"order": 7}')
    assert get("invoice") == b'{"order": 7}'


def not_again():
    assert client.set("reminder", b'{"to": "ann"}')
    assert get("reminder") == b'{"to": "ann"}'
    assert client.set("reminder", b'{"to": "ann"}')
    assert get("reminder") is None


def nightly():
    assert get("reports.kestrel/t=20000") == b'{"kind": "nightly"}'


def weekend():
    assert client.set("calls", b"call ann")
    assert get("calls") is None


def stopped():
    assert client.set("sms", b"hello")
    assert get("sms") is None


def later():
    begin = time.monotonic()
    assert client.set("survey", b"hello")
    assert get("survey/t=20000") == b"hello"
    # The server counts whole milliseconds from the beginning of its turn.
    assert time.monotonic() - begin > 0.99


def backlog():
    for number in range(3):
        assert client.set("thumbnails", b"%d" % number)
    assert not client.set("thumbnails", b"too many")
    assert get("thumbnails") == b"0"
    for number in range(4):
        assert client.set("positions", b"%d" % number)
    for number in range(1, 4):
        assert get("positions") == b"%d" % number
    assert get("positions") is None


def too_old():
    assert client.set("quotes", b"12.50")
    assert get("late-quotes/t=20000") == b"12.50"
    assert get("quotes") is None


def hangs():
    assert client.set("resize", b"picture")
    assert get("resize/open") == b"picture"
    assert get("resize/t=20000", connect()) == b"picture"


def copy():
    assert client.set("orders", b"order 7")
    assert get("orders") == b"order 7"
    assert get("audit") == b"order 7"


def in_order():
    def job(customer, step):
        return b'{"customer": "%s", "step": %d}' % (customer, step)

    for customer, step in ((b"ada", 1), (b"ada", 2), (b"bob", 1)):
        assert client.set("account", job(customer, step))
    other = connect()
    assert get("account/open") == job(b"ada", 1)
    assert get("account", other) == job(b"bob", 1)
    assert get("account", other) is None
    # While it waits for its retry, its followers wait, too.
    assert get("account/abort") is None
    assert get("account", other) is None
    for step in (1, 2):
        assert get("account/t=20000", other) == job(b"ada", step)


def in_turns():
    for customer in (b"ada", b"ada", b"ada", b"ada", b"bob"):
        assert client.set("convert", b'{"customer": "%s"}' % customer)
    order = [get("convert") for _ in range(5)]
    assert b'{"customer": "bob"}' in order[:2], order
    assert get("convert") is None


def waits():
    for number in range(3):
        assert client.set("pages", b"%d" % number)
    results = []
    producer = connect()
    put = threading.Thread(target=lambda: results.append(producer.set("pages", b"3")), daemon=True)
    put.start()
    put.join(0.3)
    assert not results, "the queue is full"
    for number in range(4):
        assert get("pages/t=20000") == b"%d" % number
    put.join(20)
    assert results == [True], results


def two_names():
    for put_into, take_from in (("invoices", "send_invoice"), ("send_invoice", "invoices")):
        assert client.set(put_into, b"invoice 7")
        assert get(take_from) == b"invoice 7"


for task in os.environ["TASKS"].split():
    globals()[task]()
