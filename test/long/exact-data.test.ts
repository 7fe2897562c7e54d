/** Data of others goes through all processes as it came: digits, `1.0`, and the order of names. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { keptJson } from '../../src/platform/json/kept.js';
import { itemsOf, membersOf } from '../../src/platform/json/members.js';
import { NO_PYTHON, outputOf, startCommand, startPython } from '../../lab/bed/command.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';

const QUEUE = 'exact-data';
const ID = 'exact-data';

const METADATA = '{"run":1.0,"by":{"3":"x","1":"y"},"id":9223372036854775783,"far":1e400}';
const OTHER = METADATA.replace('783', '784');
/** Samples may have no integer beyond 2^53. */
const COLUMN = '{"3":1.0,"1":[1e400,-0.0]}';
const OWN = '{"seed":7.0,"moves":{"3":"c","1":"a"}}';
const stateAfter = (turn: number): string =>
  `{"seed":9223372036854775783,"p":${turn}.0,"moves":{"3":"c","1":"a"},"tiny":1e-400}`;

const requestWith = (metadata: string): string => {
  const sample = `{"message_log":[{"role":"user","content":"go"}],"task_name":"game","extra_env_info":${OWN},"column":${COLUMN},"p":1.0}`;
  return `{"samples":[${sample}],"num_repeats":2,"max_rollout_turns":2,"generation":{"max_new_tokens":8,"chat_template_kwargs":{"tools":${COLUMN}}},"metadata":${metadata}}`;
};

/** Answers each step with its next state; records the texts that it was sent, by rollout and turn. */
async function startGame() {
  const states = new Map<string, string>();
  const server = http.createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      if (request.url !== '/step') {
        response.statusCode = request.url === '/health' ? 200 : 404;
        response.end('{}');
        return;
      }
      const key = String(request.headers['idempotency-key']);
      const [state = ''] =
        itemsOf(membersOf(Buffer.concat(chunks).toString())?.get('metadata') ?? '') ?? [];
      states.set(key, state);
      const turn = Number(key.slice(key.lastIndexOf('/') + 1));
      response.end(
        `{"observations": [{"role": "environment", "content": "on"}], "metadata": [${stateAfter(turn + 1)}], "rewards": [1.0], "terminateds": [false]}`,
      );
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, states, close: () => server.close() };
}

/** What the JSONL of a file has at a name, line by line. */
async function textsAt(file: string, name: string): Promise<string[]> {
  const lines = (await readFile(file, 'utf8')).split('\n').filter((line) => line !== '');
  return lines.flatMap((line) => membersOf(line)?.get(name) ?? []);
}

describe('data of others', () => {
  let bed: Testbed;
  let game: Awaited<ReturnType<typeof startGame>>;
  let at: string[];

  before(async () => {
    bed = await startTestbed('exact-data');
    game = await startGame();
    await bed.startWorker({
      task_queue: QUEUE,
      generation: await bed.simulate({ default: { thinking_tokens: 4, skill: 0, seed: 1 } }),
      environments: { game: { kind: 'http', url: game.url } },
    });
    at = ['--config', path.join(bed.directory, `${QUEUE}.yaml`)];
  });
  after(async () => {
    await bed.end();
    game.close();
  });

  const file = (name: string): string => path.join(bed.store_root, ID, name);
  const start = async (metadata: string) => {
    const input = path.join(bed.directory, 'batch.json');
    await writeFile(input, requestWith(metadata));
    const command = startCommand(['start', '--input-file', input, '--id', ID, ...at]);
    return { code: await command.exited, output: command.output() };
  };

  test('of a request comes back in the result of the workflow, and in its file', async () => {
    const { code, output } = await start(METADATA);
    assert.equal(code, 0, output);
    const result = await outputOf(['result', ID, '--json', ...at]);
    assert.equal(membersOf(result)?.get('metadata'), METADATA);
    assert.match(result, /"completed":2/);
    // Files for people are indented.
    const written = async (name: string) =>
      membersOf(keptJson(await readFile(file(name), 'utf8')).text);
    assert.equal((await written('metrics.json'))?.get('metadata'), METADATA);
    const stored = await written('batch.json');
    assert.equal(stored?.get('metadata'), METADATA);
    assert.equal(
      membersOf(stored.get('generation') ?? '')?.get('chat_template_kwargs'),
      `{"tools":${COLUMN}}`,
    );
  });

  test('of a sample is in manifest, journals and rows', async () => {
    assert.deepEqual(await textsAt(file('samples.jsonl'), 'column'), [COLUMN]);
    assert.deepEqual(await textsAt(file('samples.jsonl'), 'extra_env_info'), [OWN]);
    assert.deepEqual(await textsAt(file('rollouts.jsonl'), 'column'), [COLUMN, COLUMN]);
    assert.deepEqual(await textsAt(file('rollouts.jsonl'), 'p'), ['1.0', '1.0']);
    assert.deepEqual(await textsAt(file('journals/0-0.jsonl'), 'extra_env_info'), [OWN]);
  });

  test('of an environment is in its next step, in journals and rows', async () => {
    for (const repeat of [0, 1]) {
      const states = [0, 1].map((turn) => game.states.get(`${ID}/0-${repeat}/${turn}`));
      assert.deepEqual(states, [OWN, stateAfter(1)]);
      const kept = await textsAt(file(`journals/0-${repeat}.jsonl`), 'metadata');
      // Of two rollouts that begin one after the other, the second knows that there are no sessions, and asks for none.
      assert.deepEqual([...new Set([OWN, ...kept])], [OWN, stateAfter(1), stateAfter(2)]);
    }
    const last = stateAfter(2);
    assert.deepEqual(await textsAt(file('rollouts.jsonl'), 'extra_env_info'), [last, last]);
  });

  test('counts when a request is the same: one digit more or less is another', async () => {
    const again = await start(METADATA);
    assert.equal(again.code, 0, again.output);
    assert.match(again.output, /continues/);
    await outputOf(['result', ID, '--json', ...at]);
    const { code, output } = await start(OTHER);
    assert.equal(code, 1, output);
    assert.match(
      output,
      /has another request: metadata\.id: 9223372036854775783 there, 9223372036854775784 here/,
    );
  });

  test('is what Python reads of it', { skip: NO_PYTHON }, async () => {
    const program = `
import json, sys
from durable_rollouts import Client
batch = Client.connect(task_queue="${QUEUE}").batch("${ID}")
print(json.dumps([batch.wait(60)["metadata"], [row["extra_env_info"] for row in batch.rows()], batch.rows()[0]["column"]], separators=(",", ":")))
`;
    const python = startPython(program, bed.server);
    assert.equal(await python.exited, 0, python.output());
    // Python's floats end at 1.8e308 and 5e-324.
    const read = (text: string): string =>
      text.replaceAll('1e400', 'Infinity').replaceAll('1e-400', '0.0');
    const last = read(stateAfter(2));
    assert.equal(python.stdout().trim(), `[${read(METADATA)},[${last},${last}],${read(COLUMN)}]`);
  });
});
