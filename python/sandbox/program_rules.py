"""What a program may not do: files (Landlock), system calls (seccomp), limits of one process.

Beside its namespaces. The list is what container runtimes refuse, and what would hide memory or disk from the watcher;
Node.js, git, shells with job control, compilers and test runners work.
"""

import ctypes
import errno
import os
import resource
import struct

import confine
from confine import FIRST_ARGUMENT, JUMP_EQUAL, LOAD, answer, instruction

NEVER = """
    ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_getfd perf_event_open
    unshare setns mount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr
    statmount listmount name_to_handle_at open_by_handle_at quotactl quotactl_fd fanotify_init fanotify_mark
    lookup_dcookie sysfs ustat uselib nfsservctl vhangup bpf keyctl add_key request_key userfaultfd memfd_secret vmsplice
    init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct syslog
    ioperm iopl modify_ldt sethostname setdomainname settimeofday clock_settime clock_adjtime adjtimex migrate_pages
    move_pages
""".split()

UNKNOWN = "io_uring_setup io_uring_enter io_uring_register io_setup clone3 memfd_create".split()
"""As a kernel without them answers: programs then do without. The flags of clone3 are in memory, where a filter cannot
look; what io_uring does passes by a filter. A descriptor on its way between two processes is in none of them: with
memfd_create it would be memory that nobody counts."""

SWITCHED_OFF = """
    landlock_create_ruleset landlock_add_rule landlock_restrict_self fallocate setxattr lsetxattr fsetxattr
""".split()
"""Landlock rules keep deleted files on disk, and no process shows them; fallocate takes a disk at once; attributes of files
take memory on some file systems, and no block."""

RESERVING = [0x40305828, 0x4030582A, 0x40305839]
"""Calls of ioctl that do what fallocate does: FS_IOC_RESVSP, RESVSP64, ZERO_RANGE."""

SYSV_MEMORY = "shmget shmat shmctl msgget msgctl msgsnd msgrcv".split()
"""Belongs to no process. Refused where its sum cannot be bounded."""

UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
"""Others lead out of the network namespace (vsock) or deep into the kernel (AF_ALG, packets)."""

PERSONALITIES = [0, 8, 0x20000, 0x20008, 0xFFFFFFFF]
"""As Docker has them: none that makes memory easier to attack."""


def sockets(rules):
    """Netlink is there for routes alone, which getifaddrs reads."""
    rules.judge("socket", 0, [
        instruction(JUMP_EQUAL, UNIX, 4, 0),
        instruction(JUMP_EQUAL, INET, 3, 0),
        instruction(JUMP_EQUAL, INET6, 2, 0),
        instruction(JUMP_EQUAL, NETLINK, 2, 0),
        answer(errno.EAFNOSUPPORT),
        instruction(confine.RETURN, confine.ALLOW),
        instruction(LOAD, FIRST_ARGUMENT + 8 * 2),
        instruction(JUMP_EQUAL, 0, 1, 0),
        answer(errno.EPROTONOSUPPORT),
    ])


def refused(has_bounded_sysv):
    return [*NEVER, *UNKNOWN, *SWITCHED_OFF, *confine.BORROWERS, *([] if has_bounded_sysv else SYSV_MEMORY)]


def seccomp(has_bounded_sysv):
    rules = confine.Filter()
    rules.refuse(NEVER)
    rules.refuse(UNKNOWN, errno.ENOSYS)
    rules.refuse(SWITCHED_OFF, errno.EOPNOTSUPP)
    # The error of files that such calls do not support: programs then read and write.
    rules.refuse(confine.BORROWERS, errno.EINVAL)
    if not has_bounded_sysv:
        rules.refuse(SYSV_MEMORY, errno.ENOSYS)
    rules.judge("clone", 0, confine.CLONE)
    # Descriptors are looked at once for all threads: none has a table of its own.
    rules.refuse_bits("close_range", 2, confine.CLOSE_RANGE_UNSHARE)
    rules.refuse_values("ioctl", 1, RESERVING)
    confine.core_limit(rules)
    rules.refuse_bits("mmap", 3, confine.MAP_HUGETLB)
    rules.allow_values("personality", 0, PERSONALITIES)
    rules.refuse_values("prctl", 0, [confine.PR_SCHED_CORE])
    sockets(rules)
    rules.load()


WRITABLE = confine.WORK | confine.MAKE_SOCK | confine.IOCTL_DEV
TERMINAL = confine.READ_FILE | confine.WRITE_FILE | confine.READ_DIR | confine.IOCTL_DEV


def files(writable):
    rules = [("/", confine.READ), ("/proc", confine.READ | confine.WRITE_FILE), *((path, WRITABLE) for path in writable)]
    terminals = [(path, TERMINAL) for path in ("/dev/pts", "/dev/tty")]
    confine.landlock([*rules, *terminals], network=True)


NOFILE, MOST_LOCKED = 4096, 8 * 2**20


def limit(disk, processes):
    """`processes`: of the program's user in its namespace; null: the kernel counts others, too."""
    bounds = {
        resource.RLIMIT_FSIZE: disk,
        resource.RLIMIT_NOFILE: NOFILE,
        resource.RLIMIT_MEMLOCK: MOST_LOCKED,
        # 0 would still start the machine's core-dump program, outside and at each crash.
        resource.RLIMIT_CORE: 1,
    }
    if processes is not None:
        bounds[resource.RLIMIT_NPROC] = processes
    for name, value in bounds.items():
        hard = resource.getrlimit(name)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (value, value))


CAPABILITY_VERSION, LAST_CAPABILITY, PR_CAPBSET_DROP = 0x20080522, 63, 24
CAPSET = {"x86_64": 126, "aarch64": 91}


def regain_no_rights():
    """By no program that is started. Capabilities that this kernel does not know end the list."""
    for capability in range(LAST_CAPABILITY):
        if confine.libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break


def give_up_rights():
    """Drops the capabilities that it has in its namespaces."""
    head, none = struct.pack("=Ii", CAPABILITY_VERSION, 0), bytes(24)
    number = CAPSET[os.uname().machine]
    confine.checked(confine.libc.syscall(number, head, ctypes.create_string_buffer(none, 24)), "capset")
