"""Plays the cases of corpus/kestrel-thrift through the generated Python client.

usage: play.py CASES PORT   with what the thrift compiler made of kestrel.thrift in the folder GENERATED
"""

import json
import os
import select
import sys
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.environ["GENERATED"])

from kestrel import Kestrel  # noqa: E402
from thrift.Thrift import TApplicationException  # noqa: E402
from thrift.protocol.TBinaryProtocol import (  # noqa: E402
    TBinaryProtocol,
    TBinaryProtocolAccelerated,
)
from thrift.protocol.TCompactProtocol import (  # noqa: E402
    TCompactProtocol,
    TCompactProtocolAccelerated,
)
from thrift.transport.TSocket import TSocket  # noqa: E402
from thrift.transport.TTransport import TBufferedTransport, TFramedTransport  # noqa: E402

CASES_AT_ONCE = 24
LIMIT_MS = 10_000
SILENCE_MS = 50

TRANSPORTS = {"framed": TFramedTransport, "buffered": TBufferedTransport}
PROTOCOLS = {
    "binary": lambda transport: TBinaryProtocol(transport),
    "old binary": lambda transport: TBinaryProtocol(transport, strictWrite=False),
    # Without the extension this fails instead of falling back.
    "accelerated binary": lambda transport: TBinaryProtocolAccelerated(transport, fallback=False),
    "compact": lambda transport: TCompactProtocol(transport),
    "accelerated compact": lambda transport: TCompactProtocolAccelerated(transport, fallback=False),
}

# The order of the arguments, with what the generated code takes for those that are left out.
ARGUMENTS = {
    "put": ["queue_name", "items", "expiration_msec"],
    "get": ["queue_name", "max_items", "timeout_msec", "auto_abort_msec"],
    "confirm": ["queue_name", "ids"],
    "abort": ["queue_name", "ids"],
    "peek": ["queue_name"],
    "flush_queue": ["queue_name"],
    "flush_all_queues": [],
    "delete_queue": ["queue_name"],
    "current_status": [],
    "set_status": ["status"],
    "get_version": [],
}
DEFAULTS = {"expiration_msec": 0, "timeout_msec": 0, "auto_abort_msec": 0}


class Connection:
    def __init__(self, port, transport, protocol):
        self.socket = TSocket("127.0.0.1", port)
        self.socket.setTimeout(LIMIT_MS)
        self.transport = TRANSPORTS[transport](self.socket)
        self.client = Kestrel.Client(PROTOCOLS[protocol](self.transport))
        self.transport.open()
        self.method = None
        self.called_at = None

    def call(self, method, arguments):
        self.method = method
        self.called_at = time.monotonic()
        getattr(self.client, "send_" + method)(*arguments)

    def result(self):
        return getattr(self.client, "recv_" + self.method)()

    def is_silent(self, ms):
        return not select.select([self.socket.handle], [], [], ms / 1000)[0]


class Play:
    def __init__(self, case, port, transport, protocol):
        self.case = case
        self.open = lambda: Connection(port, transport, protocol)
        kind = f"{transport}-{protocol}".replace(" ", "-")
        self.queue = f"py-{kind}-{case['name']}-"
        self.connections = {}
        self.ids = {}

    def run(self):
        for step in self.case["steps"]:
            try:
                self.step(step)
            except Exception as error:
                return f"{self.queue}: {step}: {type(error).__name__}: {error}"
        for connection in self.connections.values():
            connection.transport.close()
        return None

    def step(self, step):
        time.sleep(step.get("sleep_ms", 0) / 1000)
        if "close" in step:
            self.connections.pop(step["close"]).transport.close()
            time.sleep(0.02)
        if "on" not in step:
            return
        name = step["on"]
        if name not in self.connections:
            self.connections[name] = self.open()
        connection = self.connections[name]
        if "call" in step:
            values = [self.argument(key, step["with"]) for key in ARGUMENTS[step["call"]]]
            connection.call(step["call"], values)
        if step.get("waits"):
            assert connection.is_silent(SILENCE_MS), "it does not wait"
        if "silent_ms" in step:
            assert connection.is_silent(step["silent_ms"]), "it is not silent"
        for key in ("returns", "answers"):
            if key in step:
                self.check(connection.result(), step[key])
        if "takes_ms_min" in step:
            took_ms = (time.monotonic() - connection.called_at) * 1000
            # Two clocks, and the time that the call took to the server.
            assert took_ms >= step["takes_ms_min"] - 5, f"it took {took_ms} ms"
        if "fails" in step:
            try:
                got = connection.result()
            except TApplicationException as failure:
                assert failure.type == step["fails"], failure
            else:
                raise AssertionError(f"{got} came")

    def argument(self, key, values):
        if key not in values:
            return DEFAULTS[key]
        value = values[key]
        if key == "queue_name":
            return self.text(value).decode("latin-1")
        if key == "items":
            return [self.text(item) for item in value]
        if key == "ids":
            return {self.ids[one] if isinstance(one, str) else one for one in value}
        return value

    def text(self, text):
        text = text.replace("{q}", self.queue)
        if text.startswith("{") and "*" in text:
            one, count = text[1:-1].split("*")
            text = one * int(count)
        return text.encode("latin-1")

    def check(self, got, wanted):
        if isinstance(wanted, list):
            assert len(got) == len(wanted), f"{len(got)} items came"
            for item, (data, number) in zip(got, wanted):
                assert item.data == self.text(data), f"{item.data[:100]} came"
                if isinstance(number, str):
                    assert item.id > 0 and item.id not in self.ids.values(), item
                    self.ids[number] = item.id
                else:
                    assert item.id == number, item
        elif isinstance(wanted, dict) and "prefix" in wanted:
            assert got.startswith(wanted["prefix"]), got
        elif isinstance(wanted, dict):
            for key, value in wanted.items():
                value = self.text(value) if isinstance(value, str) else value
                assert getattr(got, key) == value, got
        else:
            assert got == wanted, f"{got} came"


def main():
    cases_file, port = sys.argv[1], int(sys.argv[2])
    with open(cases_file, encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    # Some cases are about bytes that a generated client does not send.
    cases = [case for case in cases if "raw" not in case.get("tags", [])]
    shared = [case for case in cases if case.get("tags")]
    own = [case for case in cases if not case.get("tags")]
    kinds = [(transport, protocol) for transport in TRANSPORTS for protocol in PROTOCOLS]

    def play(case, kind):
        return Play(case, port, *kind).run()

    with ThreadPoolExecutor(CASES_AT_ONCE) as pool:
        jobs = [pool.submit(play, case, kind) for case in own for kind in kinds]
        failures = [job.result() for job in jobs]
    # These touch what others use as well, and wait for seconds. So they run one at a time, with two kinds only.
    kinds_of_shared = [("framed", "binary"), ("buffered", "compact")]
    failures += [play(case, kind) for kind in kinds_of_shared for case in shared]
    failures = [failure for failure in failures if failure]
    for failure in failures:
        print(failure, file=sys.stderr)
    played = len(kinds) * len(own) + len(kinds_of_shared) * len(shared)
    print(f"{played} plays, {len(failures)} failed", file=sys.stderr)
    sys.exit(1 if failures or not cases else 0)


main()
