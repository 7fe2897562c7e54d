import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { symlink, truncate, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { createCaptures } from '../../capture/captures.js';
import { createCaptureStore } from '../../capture/capture-store.js';
import { trajectoryRecord } from '../../capture/trajectory.js';
import { membersOf, objectText, type Members } from '../../../src/platform/json/members.js';
import type { GymRow } from '../../row.js';
import { formatJson, parseJson } from '../../json/exact.js';
import { temporaryFolder } from '../../../test/dev/fakes.js';

/** Agents and model servers say what they like: it may cost their own row, and nothing else. */

const ROW: GymRow = { key: { task: 3, rollout: 1 }, agent: 'a', attempt_index: 0, row: {} };

async function attached(text: string): Promise<{ result: Members; said: string[] }> {
  const result = membersOf(text);
  assert.ok(result !== null);
  const said: string[] = [];
  const { attach } = createCaptures({ say: (line) => said.push(line) });
  await attach({ to: 'main', row: ROW, attempt: 0, result }, null);
  return { result, said };
}

const trajectory = (field: string): string =>
  `{"reward":1,"ng_trajectory":{"task_id":"3","rollout_id":"3-1",${field}}}`;
const turn = (timestamp: string): string =>
  `{"invocation_id":"i","task_id":"3","rollout_id":"3-1","turn_no":0,"timestamp":${timestamp},"step_count":1}`;

describe('what an agent reports about its own play', () => {
  test('with a number that JSON has none for is written as upstream writes it: null', async () => {
    const { result, said } = await attached(trajectory(`"turns":[${turn('1e999')}]`));
    assert.match(result.get('ng_trajectory') ?? '', /"timestamp":null/);
    assert.deepEqual(said, []);
  });

  test('with something else where a list belongs is no trajectory', async () => {
    const invocation = '{"invocation_id":"i","conversation":null}';
    const { result } = await attached(trajectory(`"invocations":[${invocation}]`));
    assert.match(result.get('ng_trajectory') ?? '', /producer_trajectory_invalid/);
  });

  test('in a hundred thousand calls takes no longer than they are many', () => {
    const numbers = Array.from({ length: 100_000 }, (_, n) => String(n));
    const records = numbers.map((n) => ({ kind: 'tool_call', invocation_id: '', tool_call_id: n }));
    const calls = numbers.map((n) => ({ model_call_id: n }));
    const before = process.cpuUsage();
    const record = trajectoryRecord(
      { task_id: '3', rollout_id: '3-1' },
      { trajectory: undefined, observations: { records }, capture: { calls } },
    );
    const { user, system } = process.cpuUsage(before);
    const counts = [record['tool_calls'], record['model_calls']].map((list) => (list as []).length);
    assert.deepEqual(counts, [100_000, 100_000]);
    assert.ok(user + system < 20e6, `${(user + system) / 1e6} s`);
  });

  test('at a length that would fill memory stays as it was said', async () => {
    const text = trajectory(`"model_calls":[${'1,'.repeat(17 * 2 ** 20)}1]`);
    const { result, said } = await attached(text);
    assert.equal(objectText(result) === text, true);
    assert.match(
      said.join(),
      /^Observations of 3-1 stay as its agent reported them: expected at most/,
    );
  });
});

describe('a capture', () => {
  const SECRET = '{"password":"of somebody else"}\n';

  async function readOf(
    t: TestContext,
    make: (file: string, folder: string) => Promise<void> | void,
  ): Promise<unknown> {
    const folder = await temporaryFolder(t);
    await make(path.join(folder, '3-1.capture.jsonl'), folder);
    return await createCaptureStore(folder).read('3-1', null);
  }

  test('that is empty has no calls', async (t) => {
    const found = await readOf(t, (file) => writeFile(file, ''));
    assert.deepEqual(found, { exchanges: [], unreadable: 0, is_incomplete: false });
  });

  test('that is a link is not followed', async (t) => {
    const linked = readOf(t, async (file, folder) => {
      await writeFile(path.join(folder, 'secret'), SECRET);
      await symlink('secret', file);
    });
    await assert.rejects(linked, /ELOOP/);
  });

  test('that is a pipe is not waited for', async (t) => {
    const piped = readOf(t, (file) => void execFileSync('mkfifo', [file]));
    await assert.rejects(piped, /expected a file$/);
  });

  test('that is too long to be held is not read', async (t) => {
    const long = readOf(t, async (file) => {
      await writeFile(file, '');
      await truncate(file, 10 * 2 ** 30);
    });
    await assert.rejects(long, /expected at most 33554432 bytes, got 10737418240/);
  });
});

test('numbers that come again and again take one object each', () => {
  const text = `[${'1,'.repeat(2 ** 20)}1]`;
  const parsed = parseJson(text) as unknown[];
  assert.equal(new Set(parsed).size, 1);
  assert.equal(formatJson(parsed as never) === text, true);
});
