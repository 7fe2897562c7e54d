import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import http from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import { createEnvironment, EnvironmentSettings } from '../../src/environments/registry.js';
import { IN_LINES, IN_PAYLOADS, IN_SAMPLES } from '../../src/model/workflow-safe/foreign.js';
import { readJson, writeJson } from '../../src/platform/json/kept.js';
import { membersOf } from '../../src/platform/json/members.js';
import { activityBench, AT } from '../fakes/activity-bench.js';
import { bareContext } from '../fakes/environment-context.js';
import { author, entryOf } from '../fakes/journal-lines.js';
import { BATCH, REF } from '../fakes/temporary-store.js';
import type { LineOf } from '../../src/model/journal.js';

/** What a game's server may keep as its state: a seed, floats, and moves by number. */
const FIRST =
  '{"seed":9223372036854775783,"p":1.0,"moves":{"3":"c","1":"a"},"far":1e400,"twice":1,"twice":2}';
const SECOND =
  '{"seed":9223372036854775783,"p":2.0,"moves":{"3":"c","1":"a","2":"b"},"tiny":1e-400}';

/** Answers each step with the second state; records the texts that it was sent. */
async function startGame(t: TestContext): Promise<{ url: string; sent: string[] }> {
  const sent: string[] = [];
  const server = http.createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      sent.push(Buffer.concat(chunks).toString());
      response.end(
        `{"observations": [{"role": "environment", "content": "on"}], "metadata": [${SECOND}],\n "rewards": [1.0], "terminateds": [false]}`,
      );
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, sent };
}

const stateIn = (body: string): string =>
  /^\[(.*)\]$/.exec(membersOf(body)?.get('metadata') ?? '')?.[1] ?? '';

describe('an environment behind a service', () => {
  test('gets the state that it gave, number by number and name by name, from journal to row', async (t) => {
    const { url, sent } = await startGame(t);
    const game = await createEnvironment(
      EnvironmentSettings.parse({ kind: 'http', url }),
      bareContext(),
    );
    t.after(() => game.close?.());
    const bench = await activityBench(t, { environments: { task: game } });
    const a = author('');
    const { extra_env_info } = readJson(`{"extra_env_info":${FIRST}}`, IN_LINES) as Pick<
      LineOf<'start'>,
      'extra_env_info'
    >;
    await bench.started({ extra_env_info });
    for (let turn = 0; turn < 2; turn++) {
      const journal = await bench.store.claim(REF, { activity: 'generateTurn' });
      await journal.append(entryOf(a.chunk({ turn })));
      await journal.append(entryOf(a.generation({ turn })));
      await journal.commit();
      await bench.result('stepEnvironment', { ...AT, turn });
    }
    assert.deepEqual(sent.map(stateIn), [FIRST, SECOND]);
    const journal = await bench.store.claim(REF, { activity: 'finishRollout' });
    await journal.append(entryOf(a.end({ stop_reason: 'max_turns' })));
    await journal.commit();
    const { files } = await bench.result('closeBatch', { batch_id: BATCH, stopped: false });
    const row = await readFile(files.rollouts, 'utf8');
    assert.equal(membersOf(row)?.get('extra_env_info'), SECOND);
  });
});

const SAMPLE = '{"message_log":[{"role":"user","content":"go"}],"task_name":"task"';

type Bench = Awaited<ReturnType<typeof activityBench>>;

async function planned(bench: Bench, input: unknown) {
  const { result, error } = await bench.run('planBatch', { input, workflow_id: BATCH });
  assert.equal(error, undefined);
  return result;
}

describe('a request', () => {
  const metadata = '{"run":1.0,"by":{"10":"x","9":"y"},"id":9223372036854775783}';
  const own = '{"3":1.0,"1":[1e400]}';
  const sample = `${SAMPLE},"extra_env_info":${own},"column":${own},"loss_multiplier":1.0}`;
  const request = `{"samples":[${sample}],"num_repeats":1.0,"metadata":${metadata},"generation":{"temperature":1.0,"chat_template_kwargs":{"tools":${own}}}}`;

  test('is stored, continued and answered with its metadata and its samples as they came', async (t) => {
    const bench = await activityBench(t);
    const plan = () => planned(bench, readJson(request, IN_PAYLOADS));
    assert.equal((await plan())?.continued, false);
    const stored = await bench.store.findRequest(BATCH);
    assert.ok(stored !== null);
    assert.deepEqual(stored.metadata, readJson(metadata));
    assert.deepEqual(stored.generation.chat_template_kwargs, readJson(`{"tools":${own}}`));
    assert.equal(stored.num_repeats, 1);
    assert.equal((await plan())?.continued, true);
    const result = await bench.result('closeBatch', { batch_id: BATCH, stopped: true });
    assert.deepEqual(result.metadata, readJson(metadata));
    assert.match(await readFile(result.files.metrics, 'utf8'), /"id": 9223372036854775783/);
    const row = membersOf(await readFile(result.files.failures, 'utf8'));
    assert.deepEqual(
      [row?.get('extra_env_info'), row?.get('column'), row?.get('loss_multiplier')],
      [own, own, '1'],
    );
  });

  test('has rows whose columns come in the order of its samples, also where their names are whole numbers', async (t) => {
    const bench = await activityBench(t);
    const sample = `{"9":{"3":1,"1":2},"task_name":"task","2":[],"message_log":[{"role":"user","content":"go"}],"10":0}`;
    await planned(bench, readJson(`{"samples":[${sample}]}`, IN_PAYLOADS));
    const { files } = await bench.result('closeBatch', { batch_id: BATCH, stopped: true });
    const row = membersOf(await readFile(files.failures, 'utf8'));
    const names = [...(row?.keys() ?? [])];
    assert.deepEqual(names.slice(0, 5), ['9', 'task_name', '2', 'message_log', '10']);
    assert.equal(row?.get('9'), '{"3":1,"1":2}');
    assert.ok(names.includes('total_reward'));
  });
});

describe('columns of a sample', () => {
  test('are plain where the project reads them', () => {
    const text = `${SAMPLE},"loss_multiplier":1.0,"length":3.0,"stop_strings":null}`;
    assert.deepEqual(readJson(text, IN_SAMPLES), JSON.parse(text));
  });

  test('are written again in their order, also where names are whole numbers', () => {
    for (const text of [
      `{"3":{"9":1,"8":2},"b":1,"1":1.0,"task_name":"t"}`,
      `{"10":1,"task_name":"t","9":2}`,
      `{"b":1,"1":2}`,
    ])
      assert.equal(writeJson(readJson(text, IN_SAMPLES)), text);
  });
});
