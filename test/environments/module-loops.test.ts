/** Modules of which a loop holds the process, well before the deadline of its call. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { createHttpEnvironment } from '../../src/environments/http/environment.js';
import { createModuleCalls } from '../../src/environments/module/calls.js';
import { bareContext } from '../fakes/environment-context.js';

/** `until`: it loops until there is such a file. Each answer has what its process has played so far. */
const SOURCE = `
import { existsSync } from 'node:fs';
const played = [];
export default {
  stepOne: ({ message_log, metadata }) => {
    const said = message_log.at(-1).content;
    while (metadata.until !== '' && !existsSync(metadata.until)) {}
    played.push(said);
    return { observation: played.join(' '), reward: 1, terminated: true };
  },
  /* more */
};`;

async function callsOf(t: TestContext, { more = '', timeout_ms = 60_000 } = {}) {
  const folder = await mkdtemp(path.join(tmpdir(), 'module-'));
  t.after(() => rm(folder, { recursive: true }));
  const file = path.join(folder, 'mine.mjs');
  await writeFile(file, SOURCE.replace('/* more */', more));
  const calls = createModuleCalls({
    start: {
      path: file,
      export: 'default',
      settings: {},
      name: 'mine',
      environments: {},
      timeout_ms,
    },
    context: bareContext(),
    patience_ms: 200,
  });
  t.after(() => calls.close());
  await calls.ready();
  const environment = createHttpEnvironment({ url: 'mine', timeout_ms: 600_000 }, calls);
  const step = async (content: string, until = ''): Promise<unknown> => {
    const turn = { message_log: [{ role: 'assistant', content }], metadata: { until } };
    const { signal } = new AbortController();
    const answer = await environment.step(turn, { idempotency_key: `b/0-0/${content}`, signal });
    return answer.observation?.content;
  };
  return { step, open: path.join(folder, 'open') };
}

describe('a loop in a module', () => {
  test('keeps its process, and another one answers the calls behind it before its deadline', async (t) => {
    const { step, open } = await callsOf(t);
    const ended: string[] = [];
    const looping = step('loop', open).then((seen) => ended.push(`loop: ${String(seen)}`));
    const others = ['a', 'b'].map(async (said) =>
      ended.push(`${said}: ${String(await step(said))}`),
    );
    await Promise.all(others);
    assert.equal(await step('c'), 'a b c');
    await writeFile(open, '');
    await looping;
    assert.deepEqual(ended, ['a: a', 'b: a b', 'loop: loop']);
    assert.equal(await step('d'), 'a b c d', 'by the process that serves now');
  });

  test('fails at its deadline, also where others went on without it', async (t) => {
    const { step, open } = await callsOf(t, { timeout_ms: 3000 });
    const looping = step('loop', open).then(
      () => assert.fail('it answered'),
      (error: unknown) => String(error),
    );
    assert.equal(await step('a'), 'a');
    assert.match(await looping, /mine\.mjs did not answer within 3s .*: its code held the process/);
    assert.equal(await step('b'), 'a b');
  });

  test('holds up the others where the module may hold something for each rollout', async (t) => {
    const { step, open } = await callsOf(t, { more: 'begin: () => null,' });
    const looping = step('loop', open);
    setTimeout(() => void writeFile(open, ''), 3000);
    assert.equal(await step('a'), 'loop a');
    assert.equal(await looping, 'loop');
  });
});
