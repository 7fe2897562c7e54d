import type { Attempt, Canaries } from './attempts.js';

/** What hostile code asks the kernel for: other processes, other namespaces, memory and disk that are not counted. */

export const LIBC = 'import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n';

export function systemCalls(at: Canaries): Attempt[] {
  return [...otherProcesses(at), ...namespaces(), ...uncounted(), ...children()];
}

/** A system call's number on each machine, and its arguments. */
interface Call {
  x86_64: number;
  aarch64: number;
  args: string;
  before?: string;
}

const call = (name: string, { args, before = '', ...numbers }: Call): Attempt => ({
  name: `calls ${name}`,
  code: `${LIBC}import os, platform, tempfile\n${before}\nnumber = ${JSON.stringify(numbers)}[platform.machine()]\nresult = libc.syscall(number, ${args})\n'through' if result >= 0 else ctypes.get_errno()`,
  through: `'through'`,
});

/** With invalid arguments, so that a kernel that executes the call answers EINVAL. */
const judged = (name: string, it: Call): Attempt => ({ ...call(name, it), through: '22' });

function otherProcesses(at: Canaries): Attempt[] {
  return [
    {
      name: 'signals another process',
      code: `import os\nos.kill(${at.process}, 0)\n'through'`,
      through: `'through'`,
    },
    {
      name: 'signals the worker',
      code: `import os\nos.kill(${at.parent}, 0)\n'through'`,
      through: `'through'`,
    },
    {
      name: 'signals the process that started it',
      code: `import os\nos.kill(os.getppid(), 0)\n'through'`,
      through: `'through'`,
    },
    {
      name: "reads another process's memory limits and could set them",
      code: `import resource\nresource.prlimit(${at.process}, resource.RLIMIT_NOFILE)\n'through'`,
      through: `'through'`,
    },
    {
      name: "reads another process's memory",
      code: `import os
where = int(open('/proc/${at.process}/maps').readline().split('-')[0], 16)
len(os.pread(os.open('/proc/${at.process}/mem', os.O_RDONLY), 4, where))`,
      through: '4',
    },
    {
      name: 'traces another process',
      code: `${LIBC}PTRACE_SEIZE, PTRACE_DETACH = 0x4206, 17\n'through' if libc.ptrace(PTRACE_SEIZE, ${at.process}, 0, 0) == 0 else ctypes.get_errno()`,
      through: `'through'`,
    },
    {
      name: 'lets itself be traced',
      code: `import subprocess, sys\nscript = 'import ctypes; print(ctypes.CDLL(None).ptrace(0, 0, 0, 0))'\nsubprocess.run([sys.executable, '-c', script], capture_output=True).stdout.decode().strip()`,
      through: `'0'`,
    },
    {
      name: "takes another process's descriptor",
      code: `${LIBC}import os\nPIDFD_GETFD = 438\nother = os.pidfd_open(${at.process})\n'through' if libc.syscall(PIDFD_GETFD, other, 0, 0) >= 0 else ctypes.get_errno()`,
      through: `'through'`,
    },
    {
      name: 'signals another process by its descriptor',
      code: `import os, signal\nsignal.pidfd_send_signal(os.pidfd_open(${at.process}), 0)\n'through'`,
      through: `'through'`,
    },
    {
      name: 'leaves its process group and session',
      code: `import os, subprocess\nsubprocess.run(['/bin/true'], start_new_session=True).returncode`,
      through: '0',
    },
    call("msgctl on another process's queue", {
      ...{ x86_64: 71, aarch64: 187 },
      args: `${at.message_queue}, 2, ctypes.create_string_buffer(256)`,
    }),
    call('userfaultfd', { x86_64: 323, aarch64: 282, args: '1' }),
    call('inotify_init1', { x86_64: 294, aarch64: 26, args: '0' }),
  ];
}

const [NEW_USER, NEW_NS] = ['0x10000000', '0x20000'];

function namespaces(): Attempt[] {
  return [
    call('unshare for a user namespace', { x86_64: 272, aarch64: 97, args: NEW_USER }),
    {
      name: "joins another process's namespace",
      code: `${LIBC}import os, time
ready, done = os.pipe()
child = os.fork()
if child == 0:
    libc.unshare(${NEW_USER})
    os.write(done, b'x')
    time.sleep(2)
    os._exit(0)
os.read(ready, 1)
try:
    namespace = os.open(f'/proc/{child}/ns/user', os.O_RDONLY)
except OSError:
    namespace = os.pidfd_open(child)
'through' if libc.setns(namespace, ${NEW_USER}) == 0 else ctypes.get_errno()`,
      through: `'through'`,
    },
    {
      name: 'mounts a file system in a namespace of its own',
      code: `${LIBC}import os
child = os.fork()
if child == 0:
    libc.unshare(${NEW_USER} | ${NEW_NS})
    os._exit(1 if libc.mount(b'none', b'/tmp', b'tmpfs', 0, None) != 0 else 0)
'through' if os.waitpid(child, 0)[1] == 0 else 'refused'`,
      through: `'through'`,
    },
    {
      name: 'opens a file system in a namespace of its own',
      code: `${LIBC}import os
FSOPEN = 430
child = os.fork()
if child == 0:
    libc.unshare(${NEW_USER} | ${NEW_NS})
    os._exit(1 if libc.syscall(FSOPEN, b'tmpfs', 0) < 0 else 0)
'through' if os.waitpid(child, 0)[1] == 0 else 'refused'`,
      through: `'through'`,
    },
  ];
}

/** What the kernel says where no huge pages are set aside. */
const NO_HUGE_PAGES = /^('through'|12|22)$/;
/** What some file systems say. */
const NO_ATTRIBUTES = /^('through'|OSError\(95, .*)$/;
const FILE = 'file = tempfile.TemporaryFile()';
const PAGE = `import os, tempfile\n${FILE}\nfile.write(b'x' * 4096)\nfile.flush()\n`;

function uncounted(): Attempt[] {
  return [
    call('memfd_create', { x86_64: 319, aarch64: 279, args: 'b"x", 0' }),
    call('shmget', { x86_64: 29, aarch64: 194, args: '0, 4096, 0o1600' }),
    {
      name: 'maps memory that would belong to nobody',
      code: `import mmap\nmmap.mmap(-1, 4096)[0:1] = b'x'\n'through'`,
      through: `'through'`,
    },
    call('vmsplice, which leaves memory in a pipe', {
      ...{ x86_64: 278, aarch64: 75 },
      before: `import struct\npage = ctypes.create_string_buffer(4096)\nvector = struct.pack('@PN', ctypes.addressof(page), 4096)`,
      args: 'os.pipe()[1], vector, 1, 0',
    }),
    {
      // A page of a deleted file keeps up to 2 MiB of memory.
      name: 'keeps a page of a file in a pipe',
      code: `${PAGE}os.splice(file.fileno(), os.pipe()[1], 4096, offset_src=0)`,
      through: '4096',
    },
    {
      name: 'keeps a page of a file in a socket',
      code: `${PAGE}import socket\npair = socket.socketpair()\nos.sendfile(pair[0].fileno(), file.fileno(), 0, 4096)`,
      through: '4096',
    },
    call('tee, which keeps what another pipe has', {
      ...{ x86_64: 276, aarch64: 77 },
      before: `source = os.pipe()\nos.write(source[1], b'x')`,
      args: 'source[0], os.pipe()[1], 1, 0',
    }),
    {
      ...call('mmap for huge pages', {
        ...{ x86_64: 9, aarch64: 222 },
        before: 'libc.syscall.restype = ctypes.c_long',
        args: 'None, ctypes.c_size_t(1 << 21), 3, 0x40022, -1, ctypes.c_long(0)',
      }),
      through: NO_HUGE_PAGES,
    },
    {
      name: 'sends a descriptor away',
      code: `import os, socket\na, b = socket.socketpair()\nsocket.send_fds(a, [b'x'], [0])\n'through'`,
      through: `'through'`,
    },
    call('fallocate beyond the size of a file', {
      ...{ x86_64: 285, aarch64: 47, before: FILE },
      args: 'file.fileno(), 1, ctypes.c_long(0), ctypes.c_long(4096)',
    }),
    call('fallocate', {
      ...{ x86_64: 285, aarch64: 47, before: FILE },
      args: 'file.fileno(), 0, ctypes.c_long(0), ctypes.c_long(4096)',
    }),
    {
      name: 'reserves disk by ioctl',
      code: `import fcntl, struct, tempfile
FS_IOC_RESVSP = 0x40305828
file = tempfile.TemporaryFile()
fcntl.ioctl(file, FS_IOC_RESVSP, struct.pack('=hhiqqiI4i', 0, 0, 0, 0, 4096, 0, 0, 0, 0, 0, 0))
'through'`,
      through: `'through'`,
    },
    {
      name: 'asks for the flags of a file of others by ioctl',
      code: `import fcntl, os\nFS_IOC_GETFLAGS = 0x80086601\nfcntl.ioctl(os.open('/usr/bin/env', os.O_RDONLY), FS_IOC_GETFLAGS, b'0' * 8)\n'through'`,
      through: `'through'`,
    },
    call('landlock_create_ruleset, whose rules keep deleted files', {
      ...{ x86_64: 444, aarch64: 444 },
      before: 'import struct',
      args: "struct.pack('=Q', 4), 8, 0",
    }),
    call('seccomp, whose filters are memory of the kernel', {
      ...{ x86_64: 317, aarch64: 277 },
      before: 'import struct',
      args: "2, 0, struct.pack('=I', 0x7fff0000)",
    }),
    judged('prctl for a filter', { x86_64: 157, aarch64: 167, args: '22, 9, 0, 0, 0' }),
    {
      // On a tmpfs it takes memory, and no block of the file.
      name: 'gives a file of its own an attribute',
      code: `import os, tempfile\nfile = tempfile.NamedTemporaryFile()\nos.setxattr(file.name, 'user.x', b'x')\n'through'`,
      through: NO_ATTRIBUTES,
    },
    {
      name: 'makes the buffer of a socket larger',
      code: `import socket\na, b = socket.socketpair()\na.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)\n'through'`,
      through: `'through'`,
    },
    {
      name: 'has signals sent by a lease',
      code: `import fcntl, os, tempfile\nfile, name = tempfile.mkstemp()\nos.close(file)\nfcntl.fcntl(os.open(name, os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK)\nos.unlink(name)\n'through'`,
      through: `'through'`,
    },
  ];
}

const [CLONE_PARENT, CLONE_SIGHAND, CLONE_THREAD] = ['0x8000', '0x800', '0x10000'];

function children(): Attempt[] {
  const clone = { x86_64: 56, aarch64: 220 };
  return [
    {
      // Its end would wake a process that is stopped between two turns.
      name: 'makes a child whose end sends SIGCONT',
      code: `${LIBC}import os, platform, signal
number = ${JSON.stringify(clone)}[platform.machine()]
child = libc.syscall(number, int(signal.SIGCONT), 0, 0, 0, 0)
if child == 0:
    os._exit(0)
'through' if child > 0 else ctypes.get_errno()`,
      through: `'through'`,
    },
    judged('clone for a brother', {
      ...clone,
      args: `${CLONE_PARENT} | ${CLONE_SIGHAND}, 0, 0, 0, 0`,
    }),
    judged('clone for a thread with descriptors of its own', {
      ...clone,
      args: `${CLONE_THREAD}, 0, 0, 0, 0`,
    }),
    call('close_range for descriptors of its own', {
      ...{ x86_64: 436, aarch64: 436 },
      args: '1000, 1000, 2',
    }),
    {
      // It would take back a SIGSTOP that is on its way.
      name: 'sends itself SIGCONT',
      code: `import os, signal\nos.kill(os.getpid(), signal.SIGCONT)\n'through'`,
      through: `'through'`,
    },
    {
      name: 'sends its group SIGCONT',
      code: `import os, signal\nos.kill(0, signal.SIGCONT)\n'through'`,
      through: `'through'`,
    },
    {
      name: 'sends itself SIGCONT by its descriptor',
      code: `import os, signal\nsignal.pidfd_send_signal(os.pidfd_open(os.getpid()), signal.SIGCONT)\n'through'`,
      through: `'through'`,
    },
    {
      // Where cores go to a program, that would be started at each crash, outside.
      name: 'sets the limit of its cores',
      code: `import resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 1))\n'through'`,
      through: `'through'`,
    },
    call('timer_create, which could wake it', {
      ...{ x86_64: 222, aarch64: 107 },
      args: '0, None, ctypes.create_string_buffer(8)',
    }),
  ];
}
