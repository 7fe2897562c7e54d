import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { createCaptures } from '../../capture/captures.js';
import { captureDir, createCaptureStore } from '../../capture/capture-store.js';
import { membersOf, objectText } from '../../../src/platform/json/members.js';
import type { GymRow } from '../../row.js';
import type { JsonObject } from '../../json/exact.js';
import { formatJson, isObject, numberOf, parseJson } from '../../json/exact.js';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';
import { temporaryFolder } from '../../../test/dev/fakes.js';

const CASES = path.join(PROJECT_ROOT, 'test', 'goldens', 'gym_capture', 'cases.jsonl');

function objectIn(value: unknown): JsonObject {
  const json = value as JsonObject;
  assert.ok(isObject(json));
  return json;
}

const rowOf = (row: JsonObject): GymRow => ({
  key: {
    task: numberOf(row['_ng_task_index']) ?? 0,
    rollout: numberOf(row['_ng_rollout_index']) ?? 0,
  },
  agent: 'a',
  attempt_index: numberOf(row['_ng_attempt_index']) ?? 0,
  row,
});

const unexpected = (line: string): void => {
  throw new Error(`said: ${line}`);
};

const PLAIN = rowOf(objectIn(parseJson('{"_ng_task_index":3,"_ng_rollout_index":1}')));

describe('a result with its captured model calls', () => {
  for (const line of readFileSync(CASES, 'utf8').trimEnd().split('\n')) {
    const golden = objectIn(parseJson(line));
    test(`is upstream's: ${golden['name'] as string}`, async (t) => {
      const folder = await temporaryFolder(t);
      const { capture } = golden;
      if (isObject(capture)) {
        const file = path.join(folder, `${capture['id'] as string}.capture`);
        if (typeof capture['lines'] === 'string')
          await writeFile(`${file}.jsonl`, capture['lines']);
        if (capture['is_incomplete'] === true) await writeFile(`${file}.incomplete`, '');
      }
      const row = rowOf(objectIn(golden['row']));
      const result = membersOf(formatJson(golden['result'] ?? null));
      assert.ok(result !== null);
      const capture_dir = capture === null ? null : folder;
      const { attach } = createCaptures({ capture_dir, say: unexpected });
      await attach({ to: 'main', row, attempt: row.attempt_index, result }, null);
      assert.equal(objectText(result), formatJson(golden['expected'] ?? null));
    });
  }

  test('says that references of its agent are not joined with them', async (t) => {
    const { attach } = createCaptures({ capture_dir: await temporaryFolder(t), say: unexpected });
    const result = membersOf('{"ng_agent_observations":{"source":"s"}}');
    assert.ok(result !== null);
    await attach({ to: 'main', row: PLAIN, attempt: 0, result }, null);
    const capture = objectIn(parseJson(result.get('ng_model_call_capture') ?? ''));
    assert.match(formatJson(capture['gaps'] ?? null), /agent_observation_join_failed/);
  });
});

test('calls of a run that was cut are left out of the result of the one that was sent again', async (t) => {
  const folder = await temporaryFolder(t);
  const calls = [{ started_at: 4.5 }, 'torn', { started_at: 7.25 }, {}];
  const lines = calls.map((call) => (call === 'torn' ? '{' : JSON.stringify(call)));
  await writeFile(path.join(folder, '3-1.capture.jsonl'), lines.join('\n'));
  const store = createCaptureStore(folder);
  const indices = async (since: number | null): Promise<unknown> => {
    const captured = await store.read('3-1', since);
    const read = captured?.exchanges.map(({ call_index, exchange }) => [
      call_index,
      numberOf(exchange['started_at']),
    ]);
    return { read, unreadable: captured?.unreadable };
  };
  assert.deepEqual(await indices(null), {
    read: [
      [0, 4.5],
      [2, 7.25],
      [3, null],
    ],
    unreadable: 1,
  });
  assert.deepEqual(await indices(7), {
    read: [
      [1, 7.25],
      [2, null],
    ],
    unreadable: 1,
  });
});

test('what earlier plays captured of the attempts to come is cleared, and nothing else', async (t) => {
  const folder = await temporaryFolder(t);
  const names = ['3-1', '3-1-a1', '3-1-a2', '3-1-a3', '3-10'];
  for (const name of names) await writeFile(path.join(folder, `${name}.capture.jsonl`), '{}\n');
  await writeFile(path.join(folder, '3-1-a1.capture.incomplete'), '');
  const said: string[] = [];
  const captures = createCaptures({ capture_dir: folder, say: (line) => said.push(line) });
  await captures.clear([{ ...PLAIN, attempt_index: 1 }], 2);
  assert.deepEqual((await readdir(folder)).toSorted(), [
    '3-1-a3.capture.jsonl',
    '3-1.capture.jsonl',
    '3-10.capture.jsonl',
  ]);
  assert.deepEqual(said, ['Clearing existing model-call captures for rollouts being dispatched']);
});

describe('where model calls are captured', () => {
  const dirOf = (config: string) => captureDir(objectIn(parseJson(config)));

  test('is the folder of the servers, where they observe', () => {
    assert.equal(dirOf('{"observability_enabled":true,"model_call_capture_dir":"/c"}'), '/c');
    assert.equal(dirOf('{"model_call_capture_dir":"/c"}'), null);
  });

  test('is refused as upstream refuses it', () => {
    assert.throws(
      () => dirOf('{"observability_enabled":true}'),
      /model_call_capture_dir is required when observability_enabled=true/,
    );
    assert.throws(
      () => dirOf('{"observability_enabled":true,"model_call_capture_dir":"c"}'),
      /must be an absolute path/,
    );
  });
});
