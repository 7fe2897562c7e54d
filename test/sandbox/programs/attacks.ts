import type { Attempt, Canaries } from '../../environments/code/attempts.js';

/** What hostile programs try beside what hostile code tries (test/environments/code/attempts.ts). */

export interface Attack extends Attempt {
  /** Others cannot do it anywhere. */
  needs_root?: true;
  /** What it says on a host that refuses it to everybody. */
  absent?: RegExp;
}

export interface Targets extends Canaries {
  /** Of another rollout, with the secret in it. */
  file_of_other_life: string;
  /** With the secret in it. */
  journal: string;
  /** A folder of the host that programs may read. */
  mount: string;
}

const LIBC = 'import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n';
const quote = (text: string): string => JSON.stringify(text);
const THROUGH = `'through'`;

export const attacks = (at: Targets): Attack[] => [
  ...onFiles(at),
  ...onOthers(at),
  ...onTheKernel(),
];

function onFiles(at: Targets): Attack[] {
  const reads = (what: string, file: string): Attack => ({
    name: `reads ${what}`,
    code: `open(${quote(file)}).read()`,
    through: quote(at.secret).replaceAll('"', "'"),
  });
  return [
    reads("another rollout's folder", at.file_of_other_life),
    reads('a journal in the store', at.journal),
    {
      name: 'links a file of the host to a name of its own',
      code: `import os, tempfile\nown = tempfile.mkdtemp() + '/own'\nos.link(${quote(at.secret_file)}, own)\nopen(own).read()`,
      through: quote(at.secret).replaceAll('"', "'"),
    },
    {
      name: 'writes to what it may read',
      code: `open(${quote(`${at.mount}/new`)}, 'w').write('x')`,
      through: '1',
    },
    {
      name: 'writes to the system',
      code: `open('/etc/hosts', 'a').close()\nopen('/usr/bin/env', 'r+b').close()\n'through'`,
      // A program that runs somewhere cannot be written.
      through: /^('through'|OSError\(26, .*)$/,
      needs_root: true,
    },
    {
      name: 'makes a device',
      code: `import os, tempfile\nos.mknod(tempfile.mkdtemp() + '/d', 0o20600, os.makedev(1, 1))\n'through'`,
      through: THROUGH,
      needs_root: true,
      absent: /^PermissionError/,
    },
    {
      name: 'makes a file of a TiB without a block',
      code: `import tempfile\nfile = tempfile.TemporaryFile()\nfile.truncate(1 << 40)\n'through'`,
      through: THROUGH,
    },
    {
      name: 'turns a switch of the kernel',
      code: `open('/proc/sys/kernel/hostname', 'r+').close()\n'through'`,
      through: THROUGH,
      needs_root: true,
      absent: /^OSError\(30/,
    },
  ];
}

function onOthers(at: Targets): Attack[] {
  return [
    {
      name: 'looks for secrets in the environments of all processes',
      code: `import glob
def has(file):
    try:
        return ${quote(at.secret)} in open(file, errors='replace').read()
    except OSError:
        return False
'through' if any(map(has, glob.glob('/proc/[0-9]*/environ'))) else 'none'`,
      through: THROUGH,
    },
    {
      name: 'sees which programs others run',
      code: `import glob
def has(file):
    try:
        return ${quote(at.abstract_socket)} in open(file, errors='replace').read()
    except OSError:
        return False
'through' if any(map(has, glob.glob('/proc/[0-9]*/cmdline'))) else 'none'`,
      through: THROUGH,
    },
    {
      name: 'opens a raw socket',
      code: `import socket\nsocket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close()\n'through'`,
      through: THROUGH,
      needs_root: true,
      absent: /^PermissionError/,
    },
    {
      name: 'opens a socket of packets',
      code: `import socket\nsocket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()\n'through'`,
      through: THROUGH,
      needs_root: true,
      absent: /^PermissionError/,
    },
    {
      name: 'opens a socket of the crypto interface',
      code: `import socket\nsocket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET).close()\n'through'`,
      through: THROUGH,
      absent: /^OSError\(97/,
    },
    {
      name: 'opens a socket to the host of a virtual machine',
      code: `import socket\nsocket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()\n'through'`,
      through: THROUGH,
      absent: /^OSError\(97/,
    },
    {
      name: 'gains rights by starting a program',
      code: `'through' if 'NoNewPrivs:\\t0' in open('/proc/self/status').read() else 'none'`,
      through: THROUGH,
      absent: /^'none'$/,
    },
  ];
}

/** `executed`: what a kernel says that looks at these arguments; `refused`: what one without the call, or with a switch. */
interface Call {
  numbers: { x86_64: number; aarch64: number };
  args: string;
  executed: RegExp;
  needs_root?: true;
}

const call = (name: string, { numbers, args, executed, ...more }: Call): Attack => ({
  name: `calls ${name}`,
  code: `${LIBC}number = ${JSON.stringify(numbers)}[os.uname().machine]\nresult = libc.syscall(number, ${args})\n'through' if result >= 0 else ctypes.get_errno()`,
  through: executed,
  absent: /^(1|13|38|95)$/,
  ...more,
});

function onTheKernel(): Attack[] {
  const [INVALID, OPEN] = [/^(14|22)$/, /^'through'$/];
  return [
    call('io_uring_setup', {
      ...{ numbers: { x86_64: 425, aarch64: 425 }, args: '1, None', executed: INVALID },
    }),
    call('add_key', {
      numbers: { x86_64: 248, aarch64: 217 },
      ...{ args: `b'user', b'canary', b'x', 1, -2`, executed: OPEN },
    }),
    call('keyctl for a keyring of its own', {
      ...{ numbers: { x86_64: 250, aarch64: 219 }, args: '1, None', executed: OPEN },
    }),
    call('bpf', {
      ...{ numbers: { x86_64: 321, aarch64: 280 }, args: '0, None, 0', executed: INVALID },
    }),
    call('perf_event_open', {
      numbers: { x86_64: 298, aarch64: 241 },
      ...{ args: 'None, 0, -1, -1, 0', executed: INVALID },
    }),
    call('chroot', {
      numbers: { x86_64: 161, aarch64: 51 },
      ...{ args: `b'/'`, executed: OPEN, needs_root: true },
    }),
    call('open_by_handle_at, which passes by all folders', {
      numbers: { x86_64: 304, aarch64: 265 },
      ...{ args: '-100, None, 0', executed: INVALID, needs_root: true },
    }),
    call('clone3 for a user namespace', {
      numbers: { x86_64: 435, aarch64: 435 },
      ...{ args: 'None, 64', executed: INVALID },
    }),
  ];
}
