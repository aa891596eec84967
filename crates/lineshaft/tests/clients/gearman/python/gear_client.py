"""Jobs of every kind through gear, with workers that report, fail, raise and vanish."""

import os
import threading
import time

import gear

PORT = int(os.environ["GEARMAN_PORT"])
LIMIT_S = 20
# A folder with certificates, if the server speaks TLS.
FOLDER = os.environ.get("GEARMAN_TLS")
TLS = [f"{FOLDER}/{file}" for file in ("client.key", "client.pem", "authority.pem")] if FOLDER else []


def connected(member):
    member.addServer("127.0.0.1", PORT, *TLS)
    member.waitForServer(LIMIT_S)
    return member


def until(condition):
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < LIMIT_S, "never true"
        time.sleep(0.01)


def admin(request):
    connection = client.active_connections[0]
    connection.sendAdminRequest(request, LIMIT_S)
    return request.response.decode()


def counts(function):
    """Total, running and workers of a function."""
    for line in admin(gear.StatusAdminRequest()).splitlines():
        name, *numbers = line.split("\t")
        if name == function:
            return [int(number) for number in numbers]
    return None


class Recorder(gear.Client):
    """Remembers warnings and exceptions, too."""

    def __init__(self):
        super().__init__("client")
        self.warnings, self.exceptions = [], []

    def handleWorkWarning(self, packet):
        self.warnings.append(super().handleWorkWarning(packet).handle)

    def handleWorkException(self, packet):
        self.exceptions.append(super().handleWorkException(packet).exception)


client = connected(Recorder())
worker = connected(gear.Worker("worker-1"))
worker.registerFunction("reverse")
worker.registerFunction("later")

# In the foreground, with parts, progress and a warning.
job = gear.Job(b"reverse", b"hello")
client.submitJob(job)
assigned = worker.getJob()
assert assigned.handle == job.handle and assigned.arguments == b"hello"
until(lambda: counts("reverse") == [1, 1, 1])
assigned.sendWorkStatus(1, 2)
assigned.sendWorkData(b"part")
assigned.sendWorkWarning(b"careful")
# Packets of two connections have no order: the server has the status when the client has the warning behind it.
until(lambda: client.warnings == [job.handle])
client.getConnection().sendPacket(
    gear.Packet(gear.constants.REQ, gear.constants.GET_STATUS, job.handle))
until(lambda: job.known)
assert job.running and (int(job.numerator), int(job.denominator)) == (1, 2)
assigned.sendWorkComplete(b"olleh")
until(lambda: job.complete)
assert job.data == [b"part", b"careful", b"olleh"] and not job.failure, job.data

# A job that fails, and one whose worker raises; without the option an exception is a failure.
failing, raising = gear.Job(b"reverse", b"1"), gear.Job(b"reverse", b"2")
client.submitJob(failing)
worker.getJob().sendWorkFail()
until(lambda: failing.complete)
assert failing.failure
client.submitJob(raising)
worker.getJob().sendWorkException(b"broken")
until(lambda: raising.complete)
assert raising.failure and raising.exception is None
client.setOption("exceptions")
raising = gear.Job(b"reverse", b"3")
client.submitJob(raising)
worker.getJob().sendWorkException(b"broken")
until(lambda: client.exceptions)
assert client.exceptions == [b"broken"]

# Priorities, in the background; the first may be grabbed at once, so nobody works meanwhile.
worker.setFunctions([gear.FunctionRecord(b"reverse")])
until(lambda: counts("later") == [0, 0, 0])
for background in (True, False):
    for precedence in (gear.PRECEDENCE_LOW, gear.PRECEDENCE_NORMAL, gear.PRECEDENCE_HIGH):
        client.submitJob(gear.Job(b"later", b"%d" % precedence), background, precedence)
assert counts("later") == [6, 0, 0]
worker.setFunctions([gear.FunctionRecord(b"later")])
order = []
for _ in range(6):
    assigned = worker.getJob()
    order.append(int(assigned.arguments))
    assigned.sendWorkComplete()
high, normal, low = gear.PRECEDENCE_HIGH, gear.PRECEDENCE_NORMAL, gear.PRECEDENCE_LOW
assert order == [high, high, normal, normal, low, low], order

# Equal keys are one job, whose outcome everybody hears.
first, second = (gear.Job(b"shared", b"%d" % number, unique=b"key") for number in (1, 2))
client.submitJob(first)
other_client = connected(gear.Client("other"))
other_client.submitJob(second)
assert first.handle == second.handle
assert "key" in admin(gear.ShowUniqueJobsAdminRequest()).splitlines()
worker.setFunctions([gear.FunctionRecord(b"shared")])
assigned = worker.getJob()
assert (assigned.unique, assigned.arguments) == (b"key", b"1")
assigned.sendWorkComplete(b"both")
until(lambda: first.complete and second.complete)
assert first.data == second.data == [b"both"]

# A worker that vanishes in the middle of a job; a sleeping one gets it.
fragile = gear.Job(b"fragile", b"x")
doomed = connected(gear.Worker("doomed"))
doomed.registerFunction("fragile")
client.submitJob(fragile)
doomed.getJob().sendWorkStatus(7, 8)
worker.setFunctions([gear.FunctionRecord(b"fragile")])
grabbed = []
sleeper = threading.Thread(target=lambda: grabbed.append(worker.getJob()))
sleeper.start()
until(lambda: counts("fragile") == [1, 1, 2])
doomed.shutdown()
sleeper.join(LIMIT_S)
assert grabbed[0].handle == fragile.handle
grabbed[0].sendWorkComplete(b"saved")
until(lambda: fragile.complete)
assert fragile.data[-1] == b"saved"

# A worker that takes too long loses its job; the timeout is in milliseconds, one second at least.
slow = gear.Job(b"slow", b"x")
worker.setFunctions([gear.FunctionRecord(b"slow", b"1000")])
client.submitJob(slow)
late = worker.getJob()
until(lambda: counts("slow") == [1, 0, 1])
again = worker.getJob()
assert again.handle == late.handle
again.sendWorkComplete(b"in time")
until(lambda: slow.complete)
assert slow.data == [b"in time"]

# The listings, and cancelling.
waiting = gear.Job(b"nobody", b"x", unique=b"lonely")
client.submitJob(waiting)
assert waiting.handle.decode() in admin(gear.ShowJobsAdminRequest())
assert admin(gear.CancelJobAdminRequest(waiting.handle)).strip() == "OK"
until(lambda: waiting.complete)
assert waiting.failure
assert admin(gear.CancelJobAdminRequest("H:nobody:1")).strip() == "ERR UNKNOWN_JOB"
assert "worker-1" in admin(gear.WorkersAdminRequest())
assert admin(gear.VersionAdminRequest()).startswith("OK ")

for member in (client, other_client, worker):
    member.shutdown()
