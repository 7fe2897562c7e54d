"""What a program sees of this machine: a file system of its own, put together in a mount namespace.

Programs and libraries of the system and the named `mounts` are there to be read; its folders can be written; nothing
else is there. Needs the rights that a new user namespace gives.
"""

import ctypes
import os
import stat
import struct

from confine import checked, libc

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
MOUNT_SETATTR, AT_RECURSIVE, AT_FDCWD = 442, 0x8000, -100
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV, ATTR_NOSYMFOLLOW = 1, 2, 4, 0x200000
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
MNT_DETACH = 2

DEVICES = ["null", "zero", "full", "random", "urandom", "tty"]
LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"}

ETC = """
    alternatives ca-certificates fonts java-17-openjdk ld.so.cache ld.so.conf ld.so.conf.d localtime mime.types pki
    protocols services ssl
""".split()
"""What of /etc libraries look for, and which says nothing about this machine's people."""

USER, ID, HOME = "rollout", 1000, "/tmp/home"
FILES = {
    "passwd": f"root:x:0:0:root:/:/bin/sh\n{USER}:x:{ID}:{ID}:{USER}:{HOME}:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "group": f"root:x:0:\n{USER}:x:{ID}:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost rollout\n::1 localhost\n",
    "hostname": "rollout\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    # No name server: names that are not in /etc/hosts are not found.
    "resolv.conf": "",
}


def mount(source, target, kind, flags, data=None):
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    name, place, of_kind, more = encoded
    checked(libc.mount(name, place, of_kind, ctypes.c_ulong(flags), more), f"mount {kind or source} at {target}")


def restrict(target, attributes):
    """Sets the attributes of a mount and all below it."""
    value = struct.pack("=QQQQ", attributes, 0, 0, 0)
    result = libc.syscall(MOUNT_SETATTR, AT_FDCWD, os.fsencode(target), AT_RECURSIVE, value, len(value))
    checked(result, f"mount_setattr {target}")


def bind(source, target, attributes):
    mount(source, target, None, MS_BIND | MS_REC)
    if attributes:
        restrict(target, attributes)


def place_for(source, target):
    """An empty folder or file, to be covered."""
    if os.path.isdir(source):
        os.makedirs(target, 0o755, exist_ok=True)
        return
    os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
    if not os.path.lexists(target):
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))


def show(path, root):
    """Read-only, at the same place; a link as the link that it is."""
    target = root + path
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if os.path.lexists(target) and not os.path.ismount(target) and stat.S_ISLNK(os.lstat(target).st_mode):
        return
    if stat.S_ISLNK(mode) and os.path.dirname(path) == "/":
        os.symlink(os.readlink(path), target)
        return
    place_for(path, target)
    bind(path, target, ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV)


def build(folder, order):
    """Becomes the root of this process. `writable` and `fixed` of `order`: names of folders in `folder` by where they are
    seen, the latter to be read alone; no link in those is followed if `hides` says so. /proc is the machine's until the command has its own on top of it: the kernel makes
    one only where one can be seen."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    # A link could lead to what the program did not see.
    fixed = ATTR_RDONLY | (ATTR_NOSYMFOLLOW if order["hides"] else 0)
    # Opened anew: only mounts of this namespace can be shown elsewhere in it.
    own = [
        (path, os.open(os.path.join(folder, name), os.O_PATH | os.O_DIRECTORY), attributes)
        for kind, attributes in (("writable", 0), ("fixed", fixed))
        for path, name in order[kind].items()
    ]
    mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,nr_inodes=4096,mode=755")
    for path in order["readable"]:
        show(path, folder)
    devices(folder)
    for path, file, attributes in own:
        os.makedirs(folder + path, 0o755, exist_ok=True)
        bind(f"/proc/self/fd/{file}", folder + path, ATTR_NOSUID | ATTR_NODEV | attributes)
        os.close(file)
    etc(f"{folder}/etc")
    os.makedirs(f"{folder}/proc", 0o755, exist_ok=True)
    mount("/proc", f"{folder}/proc", None, MS_BIND | MS_REC)
    os.chdir(folder)
    checked(libc.syscall(PIVOT_ROOT[os.uname().machine], b".", b"."), "pivot_root")
    checked(libc.umount2(b".", MNT_DETACH), "umount of the machine's files")
    os.chdir("/")
    mount(None, "/", None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)


def devices(root):
    os.makedirs(f"{root}/dev/pts", 0o755)
    os.mkdir(f"{root}/dev/shm", 0o755)
    for name in DEVICES:
        place_for(f"/dev/{name}", f"{root}/dev/{name}")
        bind(f"/dev/{name}", f"{root}/dev/{name}", ATTR_NOSUID)
    for name, target in LINKS.items():
        os.symlink(target, f"{root}/dev/{name}")
    mount("devpts", f"{root}/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")


def etc(folder):
    os.makedirs(folder, 0o755, exist_ok=True)
    for name in ETC:
        show(f"/etc/{name}", folder[: -len("/etc")])
    for name, text in FILES.items():
        path = f"{folder}/{name}"
        if not os.path.lexists(path):
            with open(path, "w") as file:
                file.write(text)
            os.chmod(path, 0o644)


def own_processes():
    """For the first process of a process namespace, in a mount namespace of its own."""
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
