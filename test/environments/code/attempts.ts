import { LIBC, systemCalls } from './system-call-attempts.js';

/**
 * What hostile code tries, as Python whose last expression says how it went: `'through'` (or what it got) when it
 * succeeded. All of it is aimed at canaries of the test, and bounded.
 */

export interface Canaries {
  secret_file: string;
  secret: string;
  /** A process of the test's user, with the secret in its environment. */
  process: number;
  /** The test itself. */
  parent: number;
  tcp_port: number;
  udp_port: number;
  abstract_socket: string;
  /** The id of one that is the other process's. */
  message_queue: number;
  socket_file: string;
  /** Nothing is there yet. */
  new_file: string;
}

export interface Attempt {
  name: string;
  code: string;
  /** What it says when nothing stops it; a text or a pattern. */
  through: string | RegExp;
  /** In the standard environment there is nothing to reach: it is clean from the start. */
  variables?: Record<string, string>;
}

const quote = (text: string): string => JSON.stringify(text);

export function attempts(at: Canaries): Attempt[] {
  const secret = `'${at.secret}'`;
  return [...reading(at, secret), ...network(at), ...systemCalls(at), ...files(at)];
}

function reading(at: Canaries, secret: string): Attempt[] {
  return [
    {
      name: 'reads a file of the user',
      code: `open(${quote(at.secret_file)}).read()`,
      through: secret,
    },
    {
      name: 'reads /etc/passwd',
      code: `'through' if 'root' in open('/etc/passwd').read() else 'empty'`,
      through: `'through'`,
    },
    {
      // Where applications may be, and what they keep.
      name: 'looks around in /usr',
      code: `import os\nos.listdir('/usr')\n'through'`,
      through: `'through'`,
    },
    {
      name: 'reads the environment',
      code: `import os\nos.environ.get('CANARY', 'none')`,
      through: secret,
      variables: { CANARY: at.secret },
    },
    {
      name: "reads another process's environment in /proc",
      code: `'through' if ${quote(at.secret)} in open('/proc/${at.process}/environ').read() else 'none'`,
      through: `'through'`,
    },
    {
      name: 'follows a symbolic link out of its folder',
      code: `import os, tempfile\nlink = tempfile.mkdtemp() + '/link'\nos.symlink(${quote(at.secret_file)}, link)\nopen(link).read()`,
      through: secret,
    },
    {
      name: 'opens a file through the C library',
      code: `${LIBC}import os\nfile = libc.open(${quote(at.secret_file)}.encode(), 0)\nos.read(file, 99).decode() if file >= 0 else 'refused'`,
      through: secret,
    },
  ];
}

function network(at: Canaries): Attempt[] {
  return [
    {
      name: 'connects to a TCP port of this machine',
      code: `import socket\nsocket.create_connection(('127.0.0.1', ${at.tcp_port}), 2)\n'through'`,
      through: `'through'`,
    },
    {
      name: 'sends a datagram',
      code: `import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', ${at.udp_port}))`,
      through: '1',
    },
    {
      name: 'connects to an abstract socket',
      code: `import socket\nsocket.socket(socket.AF_UNIX).connect('\\0' + ${quote(at.abstract_socket)})\n'through'`,
      through: `'through'`,
    },
    {
      name: 'connects to a socket in the file system',
      code: `import socket\nsocket.socket(socket.AF_UNIX).connect(${quote(at.socket_file)})\n'through'`,
      through: `'through'`,
    },
    {
      name: 'makes a datagram pair, which can be sent from to any address',
      code: `import socket\nsocket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n'through'`,
      through: `'through'`,
    },
    {
      name: 'talks to the kernel over netlink',
      code: `import socket\nsocket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).bind((0, 0))\n'through'`,
      through: `'through'`,
    },
    {
      // vsock among them, which not every machine has.
      name: 'makes a socket of any family',
      code: `import socket
def made(family, kind):
    try:
        socket.socket(family, kind).close()
        return True
    except OSError:
        return False
'through' if any([made(family, kind) for family in range(48) for kind in (1, 2, 3, 5)]) else 'none'`,
      through: `'through'`,
    },
    {
      name: 'listens',
      code: `import socket\nserver = socket.socket()\nserver.bind(('127.0.0.1', 0))\nserver.listen()\n'through'`,
      through: `'through'`,
    },
  ];
}

function files(at: Canaries): Attempt[] {
  return [
    {
      name: 'writes outside of its folder',
      code: `open(${quote(at.new_file)}, 'w').write('x')`,
      through: '1',
    },
    {
      name: "changes another file's mode",
      code: `import os\nos.chmod(${quote(at.secret_file)}, 0o644)\n'through'`,
      through: `'through'`,
    },
    {
      name: "changes another file's time",
      code: `import os\nos.utime(${quote(at.secret_file)})\n'through'`,
      through: `'through'`,
    },
    {
      // An access mode that asks for neither reading nor writing.
      name: 'empties another file by opening it',
      code: `import os
file = ${quote(at.secret_file)}
try:
    kept = open(file).read()
except OSError:
    kept = None
os.close(os.open(file, 3 | os.O_TRUNC))
if kept is not None:
    open(file, 'w').write(kept)
'through'`,
      through: `'through'`,
    },
    {
      name: 'truncates another file',
      code: `import os\nos.truncate(${quote(at.secret_file)}, ${at.secret.length})\n'through'`,
      through: `'through'`,
    },
  ];
}
