/**
 * What a program of a sandbox may do to the gateway, as a process of its own: `node worst-program.ts <port> [floods]`. Its
 * half bodies take its whole share, so that all else waits; with `floods` it sends none.
 */
import { Agent, request } from 'node:http';
import { connect } from 'node:net';

const port = Number(process.argv[2]);
const MIB = 2 ** 20;
const HEAD = 'POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n';
const user = (content: string) => ({ role: 'user', content });

function halfABody(): void {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined).resume();
  socket.write(`${HEAD}content-length: ${8 * MIB - 100}\r\n\r\n`);
  socket.write(Buffer.alloc(MIB, ' '));
}

const agent = new Agent({ keepAlive: true, maxSockets: 150 });

const ask = (body: string): Promise<number> =>
  new Promise((resolve) => {
    const options = { host: '127.0.0.1', port, path: '/v1/chat/completions', method: 'POST' };
    const asked = request({ ...options, agent }, (reply) => {
      reply.resume().once('close', () => {
        resolve(reply.statusCode ?? 0);
      });
    });
    asked.once('error', () => {
      resolve(0);
    });
    asked.end(body);
  });

const DEEP = '['.repeat(3000) + ']'.repeat(3000);
const called = { id: 'a', type: 'function', function: { name: 'f', arguments: DEEP } };
const BODIES = {
  large: JSON.stringify({ messages: [user('word '.repeat(1.55 * MIB))] }),
  many: JSON.stringify({ messages: Array.from({ length: 10_000 }, (_, k) => user(`${k}`)) }),
  deep: JSON.stringify({
    messages: [user('go'), { role: 'assistant', tool_calls: [called] }, user('on')],
  }),
  small: JSON.stringify({ messages: [user('Say: yes')] }),
};

/** A streamed answer that nobody reads. */
function unread(): void {
  const body = JSON.stringify({ stream: true, messages: [user('Say: ' + 'word '.repeat(500))] });
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined).pause();
  socket.write(`${HEAD}content-length: ${body.length}\r\n\r\n${body}`);
}

async function noCalls(times: number): Promise<void> {
  for (let k = 0; k < times; k++) await ask(k % 2 === 0 ? '{' : '{"messages":[]}');
}

async function conversations(times: number): Promise<void> {
  for (let k = 0; k < times; k++) {
    const name = `${Math.random()}`;
    await ask(JSON.stringify({ messages: [user(`Say: ${name}`)] }));
  }
}

async function again(name: keyof typeof BODIES, times: number): Promise<void> {
  for (let k = 0; k < times; k++) await ask(BODIES[name]);
}

if (process.argv[3] !== 'floods') for (let k = 0; k < 40; k++) halfABody();
for (let k = 0; k < 20; k++) unread();
process.stdout.write('begun\n');
await Promise.all([
  ...Array.from({ length: 16 }, () => again('large', 1000)),
  ...Array.from({ length: 16 }, () => again('many', 1000)),
  ...Array.from({ length: 16 }, () => again('deep', 1000)),
  ...Array.from({ length: 100 }, () => again('small', 100)),
  ...Array.from({ length: 20 }, () => noCalls(1000)),
  ...Array.from({ length: 20 }, () => conversations(500)),
]);
