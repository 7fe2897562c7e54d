"""Permanently removes rights of this process and its children: files (Landlock), system calls (seccomp).

Linux only, no privileges needed. Every step raises OSError if the kernel refuses it: a sandbox is complete or does not
start.
"""

import ctypes
import errno
import os
import platform
import resource
import struct

from syscalls import MACHINES, NEWEST_KNOWN, NUMBERS, X32_BIT

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS, PR_SET_CHILD_SUBREAPER, PR_SET_SECCOMP, PR_SET_DUMPABLE = 1, 38, 36, 22, 4
PR_SCHED_CORE = 62
SIGKILL = 9


def checked(result, what):
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def prctl(option, value):
    checked(libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0), f"prctl {option}")


# Landlock ------------------------------------------------------------------------------------------------------------

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << n for n in range(6))
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << n for n in range(6, 13))
REFER, TRUNCATE, IOCTL_DEV = (1 << n for n in range(13, 16))
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
READ = EXECUTE | READ_FILE | READ_DIR
WORK = (
    READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_FIFO | MAKE_SYM | REFER | TRUNCATE
)


def landlock_abi():
    """0: this kernel has no Landlock, or it is switched off."""
    return max(0, libc.syscall(CREATE_RULESET, None, 0, 1))


def landlock(rules, network=False):
    """Only these folders and files can be opened: (path, rights). TCP (unless there is a `network` namespace), abstract
    sockets and signals to others are refused if the kernel supports that.
    """
    abi = landlock_abi()
    if abi < 1:
        raise OSError(errno.ENOSYS, "this kernel has no Landlock, or it is switched off")
    handled = (1 << (13 if abi < 2 else 14 if abi < 3 else 15 if abi < 5 else 16)) - 1
    attributes = struct.pack("=QQQ", handled, 3 if abi >= 4 and not network else 0, 3 if abi >= 6 else 0)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    ruleset = checked(libc.syscall(CREATE_RULESET, attributes, size, 0), "landlock_create_ruleset")
    # A shared map of a /dev/zero that can be written is memory that belongs to no process.
    devices = {path: READ_FILE | WRITE_FILE | TRUNCATE for path in ("/dev/null", "/dev/full", "/dev/random", "/dev/urandom")}
    devices["/dev/zero"] = READ_FILE
    for path, rights in [*rules, *devices.items()]:
        try:
            file = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        is_folder = os.path.isdir(path)
        rule = struct.pack("=Qi", handled & (rights if is_folder else rights & OF_FILES), file)
        checked(libc.syscall(ADD_RULE, ruleset, 1, rule, 0), f"landlock_add_rule {path}")
        os.close(file)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    checked(libc.syscall(RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
    os.close(ruleset)


# seccomp -------------------------------------------------------------------------------------------------------------

KILL_PROCESS, ERRNO, ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
LOAD, JUMP_EQUAL, JUMP_GREATER, JUMP_AT_LEAST, JUMP_BITS, AND, RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x54, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
NEW_NAMESPACES, CLONE_PTRACE, CLONE_PARENT, CLONE_FILES, CLONE_THREAD = 0x7E020000, 0x2000, 0x8000, 0x400, 0x10000
SIGCHLD, SIGCONT = 17, 18
CLOSE_RANGE_UNSHARE = 2
O_TRUNC, SHARED_ANONYMOUS, MAP_HUGETLB = 0x200, 0x21, 0x40000

NEVER = """
    accept accept4 bind connect listen socket setsockopt
    ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_getfd perf_event_open
    sendmsg sendmmsg timer_create
    setsid setpgid setpriority ioprio_set sched_setattr sched_setparam sched_setscheduler migrate_pages move_pages
    unshare setns mount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr
    statmount listmount name_to_handle_at open_by_handle_at quotactl quotactl_fd fanotify_init fanotify_mark
    inotify_init inotify_init1 inotify_add_watch lookup_dcookie sysfs ustat uselib nfsservctl vhangup
    bpf keyctl add_key request_key io_uring_setup io_uring_enter io_uring_register io_setup userfaultfd
    memfd_create memfd_secret vmsplice mq_open mq_unlink setxattr lsetxattr fsetxattr
    shmget shmat shmctl semget semctl semop semtimedop msgget msgctl msgsnd msgrcv
    landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp
    init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct syslog personality
    ioperm iopl modify_ldt sethostname setdomainname settimeofday clock_settime clock_adjtime adjtimex sync syncfs
""".split()
"""memfd and SysV memory belong to no process's resident set, so that no limit would count them; nor would any count pages
that a pipe holds (vmsplice) or deleted files whose descriptors are on their way (sendmsg). SysV objects have
numbers, and belong to the user, not to the program that made them. A timer (timer_create) could wake a process that was stopped.
A Landlock rule keeps a deleted file on disk, and no process shows it; rules, filters (seccomp, SO_ATTACH_FILTER) and the
buffers of sockets are memory of the kernel. So are attributes of files on a tmpfs, gigabytes of which take no block."""

BORROWERS = "sendfile splice tee".split()
"""They put a file's own pages into a pipe or a socket, and a page keeps all that it was allocated with, up to 2 MiB on some
file systems: pipes that hold 64 kB would keep gigabytes of deleted files, and no process shows them."""

IOCTLS = [0x541B, 0x5421, 0x5450, 0x5451]
"""FIONREAD, FIONBIO, FIONCLEX, FIOCLEX. Others reserve disk without writing (FS_IOC_RESVSP), change the flags of files
that are only readable, signal others (FIOSETOWN, SIOCSPGRP, TIOCSTI), or are not known yet."""

FCNTLS = [*range(8), 9, 11, 36, 37, 38, 1030, 1032]
"""Descriptors and their flags, locks, how large a pipe is. Others have signals sent (F_SETOWN, F_SETSIG, F_NOTIFY) or hold up
other programs that open a file (F_SETLEASE)."""

OF_OTHERS_FILES = """
    chmod fchmod fchmodat fchmodat2 chown fchown fchownat lchown removexattr
    lremovexattr fremovexattr utime utimes utimensat futimesat
""".split()
"""Landlock does not cover these: refused when the user id is one that owns other files."""

SIGNALS = "tkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal pidfd_open".split()
"""Refused where Landlock cannot confine signals; `kill` and `tgkill` then reach the process itself alone."""

SIGNAL_ARGUMENT = {"kill": 1, "tkill": 1, "tgkill": 2, "rt_sigqueueinfo": 1, "rt_tgsigqueueinfo": 2, "pidfd_send_signal": 1}


def instruction(code, value, if_true=0, if_false=0):
    return struct.pack("=HBBI", code, if_true, if_false, value & 0xFFFFFFFF)


def answer(error):
    return instruction(RETURN, ERRNO | error)


class Filter:
    def __init__(self):
        machine = platform.machine()
        if machine not in MACHINES:
            raise OSError(errno.ENOSYS, f"no system call table for {machine}; known: {', '.join(MACHINES)}")
        architecture, self.column = MACHINES[machine]
        self.program = [
            instruction(LOAD, ARCHITECTURE),
            instruction(JUMP_EQUAL, architecture, 1, 0),
            instruction(RETURN, KILL_PROCESS),
            instruction(LOAD, NUMBER),
        ]
        if machine == "x86_64":
            self.program += [instruction(JUMP_AT_LEAST, X32_BIT, 0, 1), answer(errno.ENOSYS)]
        self.program += [instruction(JUMP_GREATER, NEWEST_KNOWN, 0, 1), answer(errno.ENOSYS)]

    def refuse(self, names, error=errno.EPERM):
        for name in names:
            number = NUMBERS[name][self.column]
            if number is not None:
                self.program += [instruction(JUMP_EQUAL, number, 0, 1), answer(error)]

    def judge(self, name, index, body):
        """`body` sees the low half of an argument and ends in a return, or falls through to be allowed."""
        number = NUMBERS[name][self.column]
        if number is None:
            return
        steps = [instruction(LOAD, FIRST_ARGUMENT + 8 * index), *body, instruction(RETURN, ALLOW)]
        self.program += [instruction(JUMP_EQUAL, number, 0, len(steps)), *steps]

    def refuse_values(self, name, index, values):
        refusals = [step for value in values for step in (instruction(JUMP_EQUAL, value, 0, 1), answer(errno.EPERM))]
        self.judge(name, index, refusals)

    def refuse_bits(self, name, index, bits):
        self.judge(name, index, [instruction(JUMP_BITS, bits, 0, 1), answer(errno.EPERM)])

    def allow_values(self, name, index, values, error=errno.EPERM):
        count = len(values)
        known = [instruction(JUMP_EQUAL, value, count - at, 0) for at, value in enumerate(values)]
        self.judge(name, index, [*known, answer(error)])

    def load(self):
        program = b"".join([*self.program, instruction(RETURN, ALLOW)])
        code = ctypes.create_string_buffer(program, len(program))
        head = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        checked(libc.prctl(PR_SET_SECCOMP, 2, head, 0, 0), "seccomp")


CLONE = [
    instruction(JUMP_BITS, NEW_NAMESPACES | CLONE_PTRACE | CLONE_PARENT, 0, 1),
    answer(errno.EPERM),
    # A thread shares the descriptors of its process: those are looked at once, not thread by thread.
    instruction(JUMP_BITS, CLONE_THREAD, 0, 2),
    instruction(JUMP_BITS, CLONE_FILES, 1, 0),
    answer(errno.EPERM),
    # The signal that its end sends to its parent: SIGCONT would wake one that was stopped.
    instruction(AND, 0xFF),
    instruction(JUMP_EQUAL, 0, 2, 0),
    instruction(JUMP_EQUAL, SIGCHLD, 1, 0),
    answer(errno.EPERM),
]


def signals(rules):
    """SIGCONT, sent at the right moment, cancels a pending SIGSTOP; between two turns nothing may run."""
    own = []
    if landlock_abi() < 6:
        rules.refuse(SIGNALS)
        own = [instruction(LOAD, FIRST_ARGUMENT), instruction(JUMP_EQUAL, os.getpid(), 1, 0), answer(errno.EPERM)]
    for name, index in SIGNAL_ARGUMENT.items():
        rules.judge(name, index, [instruction(JUMP_EQUAL, SIGCONT, 0, 1), answer(errno.EPERM), *own])


def core_limit(rules):
    """It may be queried, but not changed."""
    core = instruction(JUMP_EQUAL, resource.RLIMIT_CORE, 0, 1)
    rules.judge("setrlimit", 0, [core, answer(errno.EPERM)])
    new = [FIRST_ARGUMENT + 8 * 2, FIRST_ARGUMENT + 8 * 2 + 4]
    of_core = [step for half in new for step in (instruction(LOAD, half), instruction(JUMP_EQUAL, 0, 1, 0), answer(errno.EPERM))]
    other = instruction(JUMP_EQUAL, resource.RLIMIT_CORE, 0, len(of_core))
    own = [instruction(JUMP_EQUAL, 0, 1, 0), answer(errno.EPERM)]
    rules.judge("prlimit64", 0, [*own, instruction(LOAD, FIRST_ARGUMENT + 8), other, *of_core])


def seccomp(owns_other_files):
    rules = Filter()
    rules.refuse(NEVER)
    # glibc asks for clone3 first and takes ENOSYS as "use clone", whose flags a filter can read.
    rules.refuse(["clone3"], errno.ENOSYS)
    rules.judge("clone", 0, CLONE)
    # Descriptors are looked at once for all threads: none has a table of its own.
    rules.refuse_bits("close_range", 2, CLOSE_RANGE_UNSHARE)
    # It takes a disk without the time that writing takes, in one mode beyond RLIMIT_FSIZE; C libraries then write.
    rules.refuse(["fallocate"], errno.EOPNOTSUPP)
    # The error of files that such calls do not support: programs then read and write.
    rules.refuse(BORROWERS, errno.EINVAL)
    # Landlock has truncation since ABI 3 (Linux 6.2). Before, only opening for writing was asked about: these flags
    # empty a file without it.
    for name, index in (("open", 1), ("openat", 2)):
        refusals = [step for value in (O_TRUNC, O_TRUNC | 3) for step in (instruction(JUMP_EQUAL, value, 0, 1), answer(errno.EPERM))]
        rules.judge(name, index, [instruction(AND, O_TRUNC | 3), *refusals])
    # Its flags are in memory, where a filter cannot look; C libraries ask for openat.
    rules.refuse(["openat2"], errno.ENOSYS)
    # Shared memory of no file, filled by a process that has ended, belongs to none that is left; huge pages are kept for
    # others, and no process shows them as resident.
    huge = [instruction(JUMP_BITS, MAP_HUGETLB, 0, 1), answer(errno.EPERM)]
    shared = [instruction(AND, SHARED_ANONYMOUS), instruction(JUMP_EQUAL, SHARED_ANONYMOUS, 0, 1), answer(errno.EPERM)]
    rules.judge("mmap", 3, [*huge, *shared])
    if landlock_abi() < 3:
        rules.refuse(["truncate"])
    signals(rules)
    core_limit(rules)
    if owns_other_files:
        rules.refuse(OF_OTHERS_FILES)
    rules.allow_values("sched_setaffinity", 0, [0])
    # The parent must still see this process, and this process must still die with it. Core scheduling keeps others off.
    rules.refuse_values("prctl", 0, [PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SCHED_CORE])
    rules.allow_values("fcntl", 1, FCNTLS)
    # The error of a file that is no terminal.
    rules.allow_values("ioctl", 1, IOCTLS, errno.ENOTTY)
    # Stream pairs only (asyncio needs one): a datagram socket could be sent from to any address.
    kind = instruction(LOAD, FIRST_ARGUMENT + 8)
    unix_stream = [
        instruction(JUMP_EQUAL, 1, 1, 0),
        answer(errno.EPERM),
        kind,
        instruction(AND, 0xF),
        instruction(JUMP_EQUAL, 1, 1, 0),
        answer(errno.EPERM),
    ]
    rules.judge("socketpair", 0, unix_stream)
    rules.load()


def confine(rules, owns_other_files):
    prctl(PR_SET_DUMPABLE, 1)
    landlock(rules)
    seccomp(owns_other_files)
