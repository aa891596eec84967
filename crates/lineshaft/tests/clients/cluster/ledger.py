"""Puts, takes and finishes numbered jobs through a real library, while a test breaks the cluster.

  ledger.py PROTOCOL PORT...     PROTOCOL: beanstalk, gearman, kestrel; a port for each node

Each line on standard output is one event:

  put NUMBER ID SENT ANSWERED    the put was acknowledged; the id is 0 if the protocol has none
  unsure NUMBER                  it may have been put: the connection broke, or there was no answer
  got NUMBER ID ASKED ANSWERED   a worker has got the job
  finished NUMBER ANSWERED       its end was acknowledged
  maybe NUMBER                   its end may have happened
  refused NUMBER                 the job was not this worker's any more

Times are nanoseconds of one clock. After a line on standard input nothing more is put. At the end of
standard input the program ends.

A put is never sent again, because the first one may have happened. So each number is at most one job.
"""

import itertools
import logging
import os
import socket
import sys
import threading
import time

PROTOCOL, PORTS = sys.argv[1], [int(port) for port in sys.argv[2:]]
# All protocols share the queues.
QUEUE = f"ledger-{PROTOCOL}"
# A node that hangs does not answer. After this time, a client tries another node.
LIMIT_S = 4
RETRY_S = 0.02
# The producers do not get further ahead of the workers.
UNFINISHED_MAX = 300
# Leaves some processor time to the servers.
PAUSE_S = 0.01

stopping = threading.Event()
lock = threading.Lock()
numbers = itertools.count(1)
balance = 0


def say(*words, change=0):
    global balance
    with lock:
        balance += change
        sys.stdout.write(" ".join(str(word) for word in words) + "\n")
        sys.stdout.flush()


now = time.monotonic_ns


class Beanstalk:
    """greenstalk. It does not reconnect, so each failure makes a new connection."""

    def __init__(self, port):
        import greenstalk

        self.library = greenstalk
        socket.setdefaulttimeout(LIMIT_S)
        self.client = greenstalk.Client(("127.0.0.1", port), use=QUEUE, watch=[QUEUE])

    def put(self, number):
        return self.client.put(str(number), ttr=600)

    def take(self):
        asked = now()
        try:
            job = self.client.reserve(timeout=1)
        except self.library.TimedOutError:
            return None
        return int(job.body), job.id, asked, job

    def finish(self, job):
        try:
            self.client.delete(job)
        except self.library.NotFoundError:
            return False
        return True

    def close(self):
        self.client.close()


class Kestrel:
    """pymemcache. Its get() does not know the options of Kestrel, so reads are raw commands."""

    def __init__(self, port):
        from pymemcache.client.base import Client

        self.client = Client(
            ("127.0.0.1", port), default_noreply=False, timeout=LIMIT_S, connect_timeout=LIMIT_S
        )
        self.client.version()

    def put(self, number):
        if not self.client.set(QUEUE, str(number).encode()):
            raise OSError("not stored")
        return 0

    def take(self):
        asked = now()
        answer = self.client.raw_command(f"get {QUEUE}/open/t=1000".encode(), b"END\r\n")
        if not answer:
            return None
        return int(answer.split(b"\r\n")[1]), 0, asked, None

    def finish(self, _):
        return self.client.raw_command(f"get {QUEUE}/close".encode(), b"END\r\n") == b""

    def close(self):
        self.client.close()


def gearman():
    """gear. It reconnects by itself."""
    import gear

    logging.disable(logging.CRITICAL)

    def job_id(handle):
        return int(handle.rsplit(b":", 1)[1])

    class Client(gear.Client):
        def getConnection(self):
            # After a failure, submitJob() would send the same job again if it is connected again.
            if self.has_sent:
                raise gear.GearmanError("a job is sent once")
            self.has_sent = True
            return super().getConnection()

        def _lostConnection(self, conn):
            # Otherwise a submit would wait for its time limit.
            tasks = list(conn.pending_tasks)
            super()._lostConnection(conn)
            for task in tasks:
                task.setComplete()

    class Worker(gear.Worker):
        # A worker gets no answer to WORK_COMPLETE. But the answer that a job is unknown is as durable
        # as its end.
        def __init__(self, name):
            super().__init__(name)
            self.handle, self.known, self.answered = None, None, threading.Event()

        def _updateStateMachines(self):
            # A request that could not be sent is sent over the next connection. With an exception,
            # the library would count it twice, and take two jobs at once from then on.
            try:
                super()._updateStateMachines()
            except Exception:
                pass

        def _sendGrabJobUniq(self, connection=None):
            self.asked = now()
            super()._sendGrabJobUniq(connection)

        def _handleJobAssignment(self, packet, *arguments):
            # A later connection of the same object has another time.
            self.origin = packet.connection.connect_time, self.asked
            super()._handleJobAssignment(packet, *arguments)

        def job_class(self, *arguments):
            job = gear.WorkerJob(*arguments)
            job.connected, job.asked = self.origin
            return job

        def _onConnect(self, conn):
            # Otherwise each end of a job waits 40 milliseconds for the kernel.
            conn.conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            super()._onConnect(conn)

        def _lostConnection(self, conn):
            super()._lostConnection(conn)
            self.answered.set()

        def handleStatusRes(self, packet):
            if packet.getArgument(0) == self.handle:
                self.known = packet.getArgument(1) == b"1"
                self.answered.set()

    class Gearman:
        def __init__(self, port):
            self.port, self.client, self.worker = port, None, None

        def put(self, number):
            if self.client is None:
                self.client = Client("client")
                self.client.addServer("127.0.0.1", self.port)
            self.client.waitForServer()
            if stopping.is_set():
                raise OSError("too late")
            job = gear.Job(QUEUE.encode(), str(number).encode())
            self.client.has_sent = False
            self.client.submitJob(job, background=True, timeout=LIMIT_S)
            return job_id(job.handle)

        def take(self):
            if self.worker is None:
                self.worker = Worker("worker")
                self.worker.addServer("127.0.0.1", self.port)
                self.worker.registerFunction(QUEUE)
            job = self.worker.getJob()
            return int(job.arguments), job_id(job.handle), job.asked, job

        def finish(self, job):
            def is_same():
                # A later connection does not have this job.
                return job.connection.connect_time == job.connected

            if not is_same():
                return False
            self.worker.handle, self.worker.known = job.handle, None
            self.worker.answered.clear()
            job.sendWorkComplete()
            packet = gear.Packet(gear.constants.REQ, gear.constants.GET_STATUS, job.handle)
            self.worker.sendPacket(packet, job.connection)
            if not self.worker.answered.wait(LIMIT_S):
                self.worker._lostConnection(job.connection)
            return not self.worker.known if is_same() and self.worker.known is not None else None

        def close(self):
            """The library reconnects."""

    return Gearman


connect = gearman() if PROTOCOL == "gearman" else {"beanstalk": Beanstalk, "kestrel": Kestrel}[PROTOCOL]


class Member:
    """One connection at a time. After a failure, another node is next."""

    def __init__(self, at):
        self.at, self.connection = at, None

    def connected(self):
        while self.connection is None:
            try:
                self.connection = connect(PORTS[self.at % len(PORTS)])
            except Exception:
                self.at += 1
                time.sleep(RETRY_S)
        return self.connection

    def failed(self):
        if PROTOCOL == "gearman":
            time.sleep(RETRY_S)
            return
        try:
            self.connection.close()
        except Exception:
            pass
        self.connection = None
        self.at += 1


def produce(at):
    member = Member(at)
    while not stopping.is_set():
        time.sleep(PAUSE_S)
        if balance > UNFINISHED_MAX:
            continue
        connection = member.connected()
        number, sent = next(numbers), now()
        try:
            job_id = connection.put(number)
        except Exception:
            say("unsure", number)
            member.failed()
            continue
        say("put", number, job_id, sent, now(), change=1)


def work(at):
    member = Member(at)
    while True:
        connection = member.connected()
        try:
            taken = connection.take()
        except Exception:
            member.failed()
            continue
        if taken is None:
            continue
        number, job_id, asked, job = taken
        say("got", number, job_id, asked, now())
        try:
            done = connection.finish(job)
        except Exception:
            done = None
            member.failed()
        if done:
            say("finished", number, now(), change=-1)
        elif done is None:
            say("maybe", number, change=-1)
        else:
            say("refused", number)


for at in range(len(PORTS)):
    threading.Thread(target=produce, args=(at,), daemon=True).start()
    threading.Thread(target=work, args=(at + 1,), daemon=True).start()
sys.stdin.readline()
stopping.set()
sys.stdin.read()
sys.stdout.flush()
os._exit(0)
