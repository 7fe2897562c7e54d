import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Canaries } from './attempts.js';

/** What hostile code is aimed at. */
export async function makeCanaries(): Promise<{ canaries: Canaries; close: () => void }> {
  const folder = mkdtempSync(path.join(tmpdir(), 'code-canaries-'));
  chmodSync(folder, 0o755);
  const secret = randomBytes(8).toString('hex');
  const secret_file = path.join(folder, 'secret');
  writeFileSync(secret_file, secret);
  const tcp = createServer((socket) => socket.destroy());
  const file = createServer((socket) => socket.destroy());
  const socket_file = path.join(folder, 'socket');
  tcp.listen(0, '127.0.0.1');
  file.listen(socket_file);
  await Promise.all([once(tcp, 'listening'), once(file, 'listening')]);
  chmodSync(socket_file, 0o777);
  const udp = createSocket('udp4').bind(0, '127.0.0.1');
  await once(udp, 'listening');
  const abstract_socket = `canary-${secret}`;
  const other = await startCanary(abstract_socket, secret);
  const close = (): void => {
    for (const one of [tcp, file, udp]) one.close();
    other.end();
    rmSync(folder, { recursive: true });
  };
  const canaries = {
    ...{ secret, secret_file, socket_file, abstract_socket, process: other.pid },
    message_queue: other.message_queue,
    ...{ parent: process.pid, tcp_port: (tcp.address() as AddressInfo).port },
    ...{ udp_port: udp.address().port, new_file: path.join(folder, 'new') },
  };
  return { canaries, close };
}

/**
 * A process of the same user that holds the secret, may be traced, listens on an abstract socket, which Node.js cannot name,
 * and has a message queue, until its input ends.
 */
async function startCanary(name: string, secret: string) {
  const script = `import ctypes, socket, sys, threading
libc = ctypes.CDLL(None)
PR_SET_PTRACER, ANY = 0x59616d61, ctypes.c_ulong(-1)
libc.prctl(PR_SET_PTRACER, ANY, 0, 0, 0)
server = socket.socket(socket.AF_UNIX)
server.bind('\\0' + sys.argv[1])
server.listen(16)
def serve():
    while True:
        server.accept()[0].close()
threading.Thread(target=serve, daemon=True).start()
queue = libc.msgget(0, 0o1600)
print(queue, flush=True)
sys.stdin.read()
libc.msgctl(queue, 0, None)`;
  const env = { PATH: process.env['PATH'], CANARY: secret };
  const child = spawn('python3', ['-c', script, name], { env });
  const [said] = (await once(child.stdout, 'data')) as [Buffer];
  return {
    pid: child.pid ?? 0,
    message_queue: Number(said.toString()),
    end: () => child.stdin.end(),
  };
}
