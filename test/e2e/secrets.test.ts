import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { startBatch } from '../../lab/bed/batch.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import type { WorkerProcess } from '../../lab/bed/worker.js';

const TASK_QUEUE = 'secrets';
const KEY = 'sk-e2e/0123456789+abcdef=';
/** One form in which a history's payload or a file may contain it. */
const READINGS = [
  KEY,
  JSON.stringify(KEY).slice(1, -1),
  encodeURIComponent(KEY),
  KEY.slice(0, 12),
  KEY.slice(-12),
];

/** Every text in a history: strings, and payloads as bytes. */
function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (value instanceof Uint8Array) return [Buffer.from(value).toString('latin1')];
  if (typeof value !== 'object' || value === null) return [];
  return Object.values(value).flatMap(textsIn);
}

async function filesBelow(directory: string): Promise<[name: string, text: string][]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  return await Promise.all(
    entries
      .filter((entry) => entry.isFile())
      .map(async (entry): Promise<[string, string]> => {
        const file = path.join(entry.parentPath, entry.name);
        return [file, await readFile(file, 'latin1')];
      }),
  );
}

describe('a key that an engine and an environment echo', () => {
  let bed: Testbed | undefined;
  let worker: WorkerProcess | undefined;

  before(async () => {
    bed = await startTestbed('secrets');
    const engine = await bed.engine.listen(400);
    worker = await bed.startWorker({
      task_queue: TASK_QUEUE,
      generation: { default: { kind: 'vllm', base_urls: [engine], api_key_env: 'ENGINE_KEY' } },
      environments: { maze: { kind: 'http', url: bed.environment.url, timeout: '10s' } },
      env: { ENGINE_KEY: KEY },
    });
  });
  after(async () => {
    if (bed === undefined) return;
    await bed.end();
    // Requested from an engine that failed.
    const problems = [...bed.engine.problems, ...bed.environment.problems];
    assert.deepEqual(
      problems.filter((problem) => !problem.startsWith('GET /is_paused')),
      [],
    );
  });

  test('is in no history, journal, row or log line', async () => {
    const id = 'echoes';
    const turn = { text: 'left', eos: true };
    let isFirst = true;
    bed!.engine.script(id, {
      generation: [[turn], [turn]],
      allow_repeats: true,
      intercept: ({ row }, response) => {
        const { headers } = response.req;
        assert.equal(headers.authorization, `Bearer ${KEY}`);
        if (row === 0) {
          response.writeHead(422).end(JSON.stringify({ headers }));
          return true;
        }
        if (!isFirst) return false;
        isFirst = false;
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.end(`data: ${JSON.stringify({ error: { message: `of ${KEY}` } })}\n\n`);
        return true;
      },
    });
    const step = {
      observation: { role: 'environment', content: `it said ${KEY} aloud` },
      reward: 1,
      terminated: true,
      metadata: { key: KEY, url: `http://x/?k=${encodeURIComponent(KEY)}` },
      stop_strings: null,
    };
    bed!.environment.script(id, { steps: [[step], [step]] });
    const sample = { message_log: [{ role: 'user', content: 'go' }], task_name: 'maze' };
    const batch = bed!.batch(id, TASK_QUEUE);
    const started = await startBatch(batch, { samples: [sample, sample], max_seq_len: 200 });
    const { rollouts, failures, failure } = await started.outcome();
    assert.equal(failure, null);

    const [failed] = failures;
    assert.equal(failed?.failure?.type, 'GenerationRejected');
    assert.match(failed.failure.message, /422 .*"authorization":"Bearer \[secret\]"/);
    const said = rollouts[0]?.message_log.at(-1)?.content;
    assert.equal(said, 'it said [secret] aloud');

    const places = await filesBelow(bed!.store_root);
    assert.ok(
      places.some(([name]) => name.includes('journals')),
      'the store has journals',
    );
    places.push(['the worker’s log', await worker!.log()]);
    const { client } = bed!.server;
    for (const workflow of [id, `${id}/0-0`, `${id}/1-0`]) {
      const history = await client.workflow.getHandle(workflow).fetchHistory();
      places.push([`the history of ${workflow}`, textsIn(history).join('\n')]);
    }
    const holding = places.filter(([, text]) => READINGS.some((one) => text.includes(one)));
    assert.deepEqual(
      holding.map(([name]) => name),
      [],
    );
    const removed = places.filter(([, text]) => text.includes('[secret]')).map(([name]) => name);
    assert.ok(
      removed.some((name) => name.includes('journals')),
      'a journal was told',
    );
    assert.ok(removed.includes(`the history of ${id}/0-0`), 'a history was told');
    assert.ok(removed.includes('the worker’s log'), 'the log was told');
  });
});
