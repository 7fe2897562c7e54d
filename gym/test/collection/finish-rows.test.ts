import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { finish } from '../../collection/results/finish.js';
import { RolloutCollectionConfig } from '../../config/schemas.js';
import type { Upload } from '../../upload/exporter.js';
import { collectionFiles } from '../../collection/files.js';
import { createScreen } from '../../../src/client/screen.js';
import { answer, startServer } from '../../../test/environments/loopback-server.js';
import { makeTemporaryDirectory } from '../../../lab/bed/temporary-directory.js';

const line = (task: number, reward: number): string =>
  `{"reward":${reward},"response":{},"_ng_task_index":${task},"_ng_rollout_index":0,"agent_ref":{"name":"a"}}\n`;

interface GivenRows {
  lines: string[];
  fields?: object;
  openUpload?: () => Promise<Upload | null>;
  /** The URL of the agent's server; absent: it is not known. */
  url?: string;
}

/** The end of a collection of task 0 alone, whose main file has these lines. */
async function finished(
  t: TestContext,
  { lines, fields: more = {}, openUpload = () => Promise.resolve(null), url }: GivenRows,
) {
  const { path: cwd, remove } = await makeTemporaryDirectory('finish');
  t.after(remove);
  const files = collectionFiles(path.join(cwd, 'out.jsonl'));
  await writeFile(files.main, lines.join(''));
  let said = '';
  const write = (text: string) => (said += text);
  const fields = { input_jsonl_fpath: 'in.jsonl', output_jsonl_fpath: 'out.jsonl', ...more };
  const exit_code = await finish(null, {
    collecting: {
      ...{ files, shown: files, max_attempts: 3 },
      screen: createScreen({ write, on: () => null, off: () => null }, {}),
      signal: new AbortController().signal,
      request: {
        config: RolloutCollectionConfig.parse(fields),
        head_server: 'http://127.0.0.1:1',
        openUpload,
        settings: {
          ...{ config: null, environment: null, batch_id: null, run_timeout: null },
          ...{ rollout_timeout: '7d', replace: false, folder: cwd },
        },
      },
    },
    agents: {
      urlOf: () =>
        url === undefined ? Promise.reject(new Error('no server')) : Promise.resolve(url),
    },
    rows: [{ key: { task: 0, rollout: 0 }, agent: 'a', attempt_index: 0, row: {} }],
  });
  return { files, exit_code, said };
}

describe('at the end of a collection', () => {
  test('the metrics are those of its rows: a result of no row is left out, and named', async (t) => {
    const { files, exit_code, said } = await finished(t, { lines: [line(0, 1), line(7, 0)] });
    assert.equal(exit_code, 0);
    const [entry] = JSON.parse(await readFile(files.aggregate, 'utf8')) as [
      { agent_metrics: Record<string, number> },
    ];
    assert.equal(entry.agent_metrics['mean/reward'], 1);
    assert.match(
      said,
      /out\.jsonl, line 2 is skipped: a result of 7-0, which is no row of this collection/,
    );
  });

  test('an agent’s server that fails to compute its metrics costs the metrics, not the results: how to get them is said', async (t) => {
    const { url } = await startServer(answer(500, 'no arena'));
    const { exit_code, files, said } = await finished(t, { lines: [line(0, 1)], url });
    assert.equal(exit_code, 1);
    assert.match(said, /Finished rollout collection!/);
    assert.match(
      said,
      /a has no entry in the metrics: POST http:.*it answered 500: no arena\..*\nThe results are whole\. When the server is mended: temporal-rollout aggregate \+input_glob=/,
    );
    assert.equal(await readFile(files.aggregate, 'utf8'), '[]');
  });

  test('results of other rows alone are no score', async (t) => {
    const { files, exit_code, said } = await finished(t, { lines: [line(7, 1)] });
    assert.equal(exit_code, 1);
    assert.match(said, /Nothing produced a result: there is no score\./);
    assert.ok(!existsSync(files.aggregate));
  });

  test('results, then metrics go to the tracking servers, whose runs end; results only where they are asked for', async (t) => {
    const sent = async (fields: object, lines = [line(0, 1)]): Promise<string[]> => {
      const calls: string[] = [];
      const openUpload = (): Promise<Upload> =>
        Promise.resolve({
          rollouts: async (results) => {
            for await (const text of results()) calls.push(text);
          },
          metrics: (values) =>
            Promise.resolve(void calls.push(String(values.get('a/mean/reward')))),
          close: () => Promise.resolve(void calls.push('closed')),
        });
      await finished(t, { lines, fields, openUpload });
      return calls;
    };
    const result = line(0, 1).trim();
    assert.deepEqual(await sent({}), [result, '1', 'closed']);
    assert.deepEqual(await sent({ upload_rollouts: false }), ['1', 'closed']);
    assert.deepEqual(await sent({ disable_aggregation: true }), [result, 'closed']);
    assert.deepEqual(await sent({}, []), []);
  });
});
