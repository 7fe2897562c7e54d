"""The sandbox of one life of a program: namespaces that last as long as this process, and commands in them, one by one.
Each command has a view of files of its own; one that is `apart` has no socket and no shared memory in common with others.

The worker speaks over the channel that Node.js makes for its children (NODE_CHANNEL_FD), lines of JSON. It sends
{"open": {...}}, writes the map of user ids when {"unshared"} comes, says {"mapped"}, gets {"ready"} with the socket that
listens inside, and then {"start": {id, argv, env, input, apart, cwd, writable, fixed, hides, readable}} or {"end": id}. It gets
{"started": id} or {"refused": why}, and {"ended": id, "status", "stdout", "stderr"}: how many bytes of each it finds on
this process's own outputs. When the channel ends, so does everything in here, and the folder goes.
"""

import array
import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import limits
import program_rules
import removal
import view
from confine import PR_SET_DUMPABLE, PR_SET_PDEATHSIG, SIGKILL, landlock_abi, libc, prctl

NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = (
    0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
)  # fmt: skip
OF_LIFE = {
    NEWUSER: "user", NEWNS: "mount", NEWNET: "network", NEWIPC: "ipc", NEWUTS: "uts", NEWCGROUP: "cgroup"
}  # fmt: skip
NICE = 10
BACKLOG = 511
SYSV = {"shmall": "16384", "shmmni": "64", "msgmni": "16"}
"""Pages and numbers of what no process holds: 64 MiB at most."""


OURS = "its sandbox cannot be had: "
"""Begins a refusal that is not the command's."""


class Refused(Exception):
    pass


class Channel:
    """Lines to and from the worker."""

    def __init__(self, file):
        self.socket = socket.socket(fileno=file)
        self.pending = b""

    def fileno(self):
        return self.socket.fileno()

    def say(self, message, handle=None):
        if handle is not None:
            # As Node.js passes handles: it gets a net.Server, and says that it has it.
            message = {"cmd": "NODE_HANDLE", "type": "net.Server", "msg": message}
        rights = [] if handle is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [handle]))]
        line = json.dumps(message).encode() + b"\n"
        sent = self.socket.sendmsg([line], rights)
        self.socket.sendall(line[sent:])

    def read(self):
        """The messages that have come; None: the worker has gone."""
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionError:
            return None
        if data == b"":
            return None
        *lines, self.pending = (self.pending + data).split(b"\n")
        return [message for message in map(json.loads, filter(None, lines)) if "cmd" not in message]

    def next(self):
        while True:
            messages = self.read()
            if messages is None:
                sys.exit(1)
            if messages:
                return messages[0]


def step(what, action, *arguments):
    try:
        return action(*arguments)
    except OSError as error:
        raise Refused(f"{what}: {error.strerror or error}") from None


def unshare(kinds, what):
    """Together, because the others need the rights that a new user namespace gives."""
    if libc.unshare(sum(kinds)) == 0:
        return
    code = ctypes.get_errno()
    raise OSError(code, os.strerror(code))


def bring_up_loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14x", b"lo", 1))


def listening(port):
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", port))
    server.listen(BACKLOG)
    return server


def bound_sysv():
    """Whether memory of no process is bounded."""
    try:
        for name, value in SYSV.items():
            with open(f"/proc/sys/kernel/{name}", "w") as file:
                file.write(value)
        return True
    except OSError:
        return False


class Life:
    def __init__(self, channel, settings):
        self.channel, self.settings = channel, settings
        self.commands = {}
        self.kept = {}
        self.own_user = settings["own_user"]

    def open(self):
        folder = self.settings["folder"]
        self.above = os.open(os.path.dirname(folder), os.O_PATH | os.O_DIRECTORY)
        self.held = removal.hold(folder)
        step("namespaces", unshare, list(OF_LIFE), "namespaces")
        prctl(PR_SET_DUMPABLE, 1)
        self.channel.say({"unshared": True})
        self.channel.next()
        step("a name of its own", socket.sethostname, "rollout")
        step("a network of its own", bring_up_loopback)
        self.has_bounded_sysv = bound_sysv()
        with step("its listener", listening, self.settings["port"]) as server:
            self.channel.say({"ready": self.facts()}, server.fileno())

    def facts(self):
        refused = program_rules.refused(self.has_bounded_sysv)
        return {"landlock": landlock_abi(), "refused": len(refused), "bounded_sysv": self.has_bounded_sysv}

    def run(self):
        """Until the worker goes."""
        poller = select.poll()
        poller.register(self.channel, select.POLLIN)
        while True:
            for file, _ in poller.poll():
                if file != self.channel.fileno():
                    self.commands[file].read(file, poller)
                    continue
                messages = self.channel.read()
                if messages is None:
                    return
                for message in messages:
                    self.obey(message, poller)

    def obey(self, message, poller):
        if "start" in message:
            command = Command(self, message["start"])
            for file in command.files:
                self.commands[file] = command
                poller.register(file, select.POLLIN)
        elif "end" in message:
            for command in {one for one in self.commands.values() if one.id == message["end"]}:
                command.end()

    def close(self):
        for command in set(self.commands.values()):
            command.end()
            command.wait()
        error = removal.empty(self.held)
        try:
            os.rmdir(os.path.basename(self.settings["folder"]), dir_fd=self.above)
        except OSError:
            pass
        return error


class Command:
    """Its first process is the first of a process namespace: nothing outlives it. `files`: outputs and reports, to be
    read here."""

    def __init__(self, life, order):
        self.life, self.id = life, order["id"]
        out, err, report, refusal = (os.pipe() for _ in range(4))
        if life.own_user is not None:
            for _, end in (out, err):
                os.fchown(end, *[view.ID] * 2)
        given = given_input(order.get("input") or "")
        self.supervisor = os.fork()
        if self.supervisor == 0:
            supervise(life, order, (given, out[1], err[1]), (report[1], refusal[1]))
        for file in (given, out[1], err[1], report[1], refusal[1]):
            os.close(file)
        self.names = {out[0]: 1, err[0]: 2, report[0]: "report", refusal[0]: "refusal"}
        self.files = list(self.names)
        self.counts = {1: 0, 2: 0}
        self.said = {"report": b"", "refusal": b""}

    def read(self, file, poller):
        data, name = os.read(file, 1 << 16), self.names[file]
        if data == b"":
            self.closed(file, name, poller)
        elif name in self.said:
            self.said[name] += data
        else:
            self.counts[name] += len(data)
            write_all(name, data)

    def closed(self, file, name, poller):
        poller.unregister(file)
        os.close(file)
        del self.life.commands[file]
        self.files.remove(file)
        if name == "refusal" and self.said["refusal"] == b"":
            self.life.channel.say({"started": self.id})
        if self.files:
            return
        self.wait()
        if self.said["refusal"]:
            self.life.channel.say({"refused": self.said["refusal"].decode("utf-8", "replace"), "id": self.id})
        else:
            status = int(self.said["report"] or b"9")
            self.life.channel.say({"ended": self.id, "status": status, "stdout": self.counts[1], "stderr": self.counts[2]})

    def end(self):
        if self.supervisor is not None:
            os.kill(self.supervisor, signal.SIGTERM)

    def wait(self):
        if self.supervisor is not None:
            os.waitpid(self.supervisor, 0)
            self.supervisor = None


SEALS, ALL_SEALS = 1033, 0xF


def given_input(text):
    """A file in memory: nobody waits for a reader. It can neither grow nor change."""
    file = os.memfd_create("input", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    write_all(file, text.encode("utf-8", "surrogatepass"))
    fcntl.fcntl(file, SEALS, ALL_SEALS)
    os.lseek(file, 0, os.SEEK_SET)
    return file


def write_all(file, data):
    while data:
        data = data[os.write(file, data) :]


def die_with_parent():
    prctl(PR_SET_PDEATHSIG, SIGKILL)


def supervise(life, order, streams, says):
    """Between the worker's and the program's processes: makes the namespace of processes, and waits for its end."""
    try:
        parent = os.getppid()
        die_with_parent()
        if os.getppid() != parent:
            os._exit(1)
        report, refusal = says
        step("processes of its own", unshare, [NEWPID, NEWNS], "processes")
        if order["apart"]:
            step("a network of its own", unshare, [NEWNET, NEWIPC], "network")
            step("a network of its own", bring_up_loopback)
            life.has_bounded_sysv = bound_sysv()
        step("files of its own", view.build, life.settings["folder"], order)
        is_set, tells_set = os.pipe()
        goes, lets_go = os.pipe()
        first = os.fork()
        if first == 0:
            die_with_parent()
            for file in (is_set, lets_go):
                os.close(file)
            os.write(tells_set, b"x")
            if os.read(goes, 1) == b"":
                os._exit(1)
            begin(life, order, streams, says)
        signal.signal(signal.SIGTERM, lambda *_: os.kill(first, SIGKILL))
        os.close(goes)
        os.close(tells_set)
        for file in (*streams, refusal):
            os.close(file)
        os.read(is_set, 1)
        os.write(lets_go, b"x")
        os.waitpid(first, 0)
    except BaseException as error:
        tell(says[1], f"{OURS}{error}")
    os._exit(0)


def tell(refusal, error):
    try:
        os.write(refusal, f"{error}"[:4000].encode("utf-8", "replace"))
    except OSError:
        pass


def begin(life, order, streams, says):
    """The first process of the namespace. What it inherits ends here; orphans come to it."""
    report, refusal = says
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        keep_only((*streams, report, refusal))
        step("/proc of its own", view.own_processes)
        is_hidden, hides = os.pipe()
        program = os.fork()
        if program == 0:
            os.close(report)
            os.close(hides)
            os.read(is_hidden, 1)
            become(life, order, streams, refusal)
        prctl(PR_SET_DUMPABLE, 0)
        for file in (*streams, refusal, is_hidden, hides):
            os.close(file)
        while True:
            pid, status = os.wait()
            if pid == program:
                os.write(report, str(status).encode())
                break
    except BaseException as error:
        tell(refusal, f"{OURS}{error}")
    os._exit(0)


def keep_only(files):
    """An open descriptor needs no permission."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in files:
            try:
                os.close(int(name))
            except OSError:
                pass


def become(life, order, streams, refusal):
    try:
        settings = life.settings
        os.setsid()
        for name, file in enumerate(streams):
            os.dup2(file, name)
        fcntl.fcntl(refusal, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
        high = fcntl.fcntl(refusal, fcntl.F_DUPFD_CLOEXEC, 64)
        os.closerange(3, high)
        refusal = high
        os.closerange(high + 1, high + 64)
        for each in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(each, signal.SIG_DFL)
        limits.offer()
        os.nice(NICE)
        program_rules.files(order["writable"])
        program_rules.regain_no_rights()
        if life.own_user is not None:
            os.setgroups([])
            os.setresgid(*[view.ID] * 3)
            os.setresuid(*[view.ID] * 3)
        program_rules.limit(settings["disk"], settings["processes"])
        program_rules.give_up_rights()
        os.umask(0o022)
        os.chdir(order["cwd"])
        program_rules.seccomp(life.has_bounded_sysv)
        env = order["env"]
        argv = order["argv"]
        execute(argv, env)
    except BaseException as error:
        tell(refusal, error)
    os._exit(127)


def execute(argv, env):
    try:
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        raise Refused(f"{argv[0]}: {error.strerror}") from None


def main():
    # One copy of the channel, which no command inherits.
    channel = Channel(os.dup(int(os.environ["NODE_CHANNEL_FD"])))
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != channel.fileno():
            try:
                os.close(int(name))
            except OSError:
                pass
    life = Life(channel, channel.next()["open"])
    try:
        life.open()
    except (Refused, OSError) as error:
        channel.say({"refused": str(error)})
        life.close()
        return
    try:
        life.run()
    except BrokenPipeError:
        pass
    life.close()


if __name__ == "__main__":
    main()
