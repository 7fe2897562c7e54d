import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import type { ExactEnvironment } from '../../src/environments/environment.js';
import { createEnvironment, EnvironmentSettings } from '../../src/environments/registry.js';
import { traceIn } from '../../src/platform/errors.js';
import { bareContext } from '../fakes/environment-context.js';
import { plainOf } from '../../src/platform/json/kept.js';
import { plainly } from '../fakes/plainly.js';

interface Given {
  source: string;
  file?: string;
  more?: Record<string, unknown>;
}

async function make(t: TestContext, { source, file = 'mine.ts', more = {} }: Given) {
  const folder = await mkdtemp(path.join(tmpdir(), 'module-'));
  t.after(() => rm(folder, { recursive: true }));
  await writeFile(path.join(folder, file), source);
  const settings = { kind: 'module', path: path.join(folder, file), ...more };
  const context = bareContext({ name: 'mine' });
  return await createEnvironment(EnvironmentSettings.parse(settings), context);
}

const TURN = {
  message_log: [{ role: 'assistant', content: 'hi' }],
  metadata: { left: 1 },
};
const step = (environment: ExactEnvironment, input = TURN) =>
  environment.step(input, {
    idempotency_key: 'b/0-0/0',
    signal: new AbortController().signal,
  });

const ANSWER = `({ observation: 'ok', reward: 1, terminated: true })`;

describe('an environment of kind module', () => {
  test('answers one sample at a time in TypeScript', async (t) => {
    const source = `export default { stepOne: (turn: { metadata: object }): object => ${ANSWER} };`;
    assert.deepEqual(await step(await make(t, { source })), {
      observation: { role: 'environment', content: 'ok' },
      metadata: null,
      next_stop_strings: null,
      reward: 1,
      terminated: true,
      truncated: false,
      answer: null,
    });
  });

  test('may show pictures', async (t) => {
    const content = [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }];
    const observation = JSON.stringify({ role: 'user', content });
    const source = `export default { stepOne: () => ({ ...${ANSWER}, observation: ${observation} }) };`;
    const answer = await step(await make(t, { source }));
    assert.deepEqual(answer.observation, { role: 'user', content });
  });

  test('may have upstream’s form: lists with one entry each', async (t) => {
    const source = `export default { step: ({ message_log_batch: [log, ...more], metadata: [state] }) => ({
      observations: [{ role: 'tool', content: log[0].content + more.length }],
      metadata: [{ left: state.left - 1 }],
      rewards: { a: [true], b: [0.5] },
      terminateds: [1],
      truncateds: [0],
      answers: ['x'],
    }) };`;
    const environment = await make(t, { source, file: 'mine.mjs' });
    assert.deepEqual(plainly(await step(environment)), {
      observation: { role: 'tool', content: 'hi0' },
      metadata: { left: 0 },
      next_stop_strings: null,
      reward: { a: 1, b: 0.5 },
      terminated: true,
      truncated: false,
      answer: 'x',
    });
    const two = source.replace("['x']", "['x', 'y']");
    await assert.rejects(step(await make(t, { source: two, file: 'mine.mjs' })), {
      name: 'EnvironmentRejected',
      message: /mine\.mjs answered: answers: expected 1, one per message log, got 2$/,
    });
  });

  test('is made from its settings by a named function in JavaScript', async (t) => {
    const source = `export const create = ({ reward }) => ({ stepOne: () => ({ ...${ANSWER}, reward }) });`;
    const more = { export: 'create', settings: { reward: { a: 0.5 } } };
    const environment = await make(t, { source, file: 'mine.mjs', more });
    assert.deepEqual((await step(environment)).reward, { a: 0.5 });
    const right = await make(t, {
      source,
      file: 'mine.mjs',
      more: { ...more, settings: { reward: true } },
    });
    assert.equal((await step(right)).reward, 1);
  });

  for (const [file, place] of [
    ['mine.mts', String.raw`mine\.mts:4 in inner`],
    ['mine.mjs', String.raw`mine\.mjs:4 in inner`],
    ['mine.ts', String.raw`mine\.ts(:4)? in inner`],
  ] as const) {
    test(`that throws in ${file} says where, with its own frames alone`, async (t) => {
      const of = file.endsWith('mjs') ? '' : ': number';
      const source = `
const way${of} = 1;

function inner(n${of}) { throw new RangeError('no such move ' + n); }
export default { stepOne: () => inner(way) };`;
      const thrown: unknown = await step(await make(t, { source, file })).catch((e: unknown) => e);
      assert.match(String(thrown), new RegExp(`RangeError: no such move 1 \\(at ${place}\\)$`));
      const trace = traceIn(thrown) ?? assert.fail('no trace');
      assert.match(
        trace,
        /^RangeError: no such move 1\n {4}at inner \(.*mine\..*\n {4}at .*stepOne/,
      );
      assert.doesNotMatch(trace, /src\/environments|node_modules|node:|data:/);
      assert.equal(trace.includes('name the file .mts'), !/at inner \(.*:4\)/.test(trace), trace);
    });
  }

  test('that throws a class of its own, or a plain error, says so by class, or without', async (t) => {
    const source = `class Lost extends Error {}
    export default { stepOne: ({ metadata }) => { throw metadata.left === 1 ? new Lost('the key') : new Error('the lock'); } };`;
    const environment = await make(t, { source, file: 'mine.mjs' });
    await assert.rejects(step(environment), /^EnvironmentFailed: Lost: the key \(at /);
    const plain = step(environment, { ...TURN, metadata: { left: 2 } });
    await assert.rejects(plain, /^EnvironmentFailed: the lock \(at /);
  });

  test('says that a limit of its own ended the rollout', async (t) => {
    const source = `export default { stepOne: () => ({ ...${ANSWER}, terminated: false, truncated: true }) };`;
    const { terminated, truncated } = await step(await make(t, { source, file: 'mine.mjs' }));
    assert.deepEqual([terminated, truncated], [false, true]);
  });

  test('begins with its own state and ends with the last one, each time with its session', async (t) => {
    const source = `const open = new Map();
    export default {
      begin: ({ session, metadata }) => { open.set(session, 1); return { ...metadata, at: session }; },
      end: ({ left }, { session }) => { if (!open.delete(session) || left !== 1) throw new Error('none'); },
      stepOne: () => ${ANSWER},
    };`;
    const environment = await make(t, { source, file: 'mine.mjs' });
    const { signal } = new AbortController();
    const sample = { message_log: [], metadata: { left: 1 } };
    const begun = await environment.begin?.(sample, { idempotency_key: 'b/0-0/begin-2', signal });
    assert.deepEqual(begun?.messages, []);
    assert.deepEqual(plainOf(begun.metadata), { left: 1, at: 'b/0-0/2' });
    const ending = { idempotency_key: 'b/0-0/end-2', signal };
    assert.equal(await environment.end?.({ left: 1 }, ending), true);
    await assert.rejects(environment.end!({ left: 1 }, ending), /none/);
    const plain = await make(t, {
      source: `export default { stepOne: () => ${ANSWER} };`,
      file: 'mine.mjs',
    });
    assert.ok(!('begin' in plain) && !('end' in plain));
  });

  test('of two deployments with one key has a name for each, and its steps say whose they are', async (t) => {
    const source = `export default {
      begin: ({ session }) => ({ at: session }),
      stepOne: (turn, { idempotency_key, deployment }) => ({ ...${ANSWER}, observation: idempotency_key + ' of ' + deployment }),
    };`;
    const environment = await make(t, { source, file: 'mine.mjs' });
    const { signal } = new AbortController();
    for (const deployment of ['aa', 'bb']) {
      const names = (idempotency_key: string) => ({ idempotency_key, deployment, signal });
      const begun = await environment.begin?.(
        { message_log: [], metadata: {} },
        names('b/0-0/begin-2'),
      );
      assert.deepEqual(plainOf(begun?.metadata), { at: `b/0-0/2/${deployment}` });
      const turn = { message_log: [], metadata: {} };
      const { observation } = await environment.step(turn, names('b/0-0/0'));
      assert.equal(observation?.content, `b/0-0/0 of ${deployment}`);
    }
  });

  test('ends after a beginning that is still running, though its caller has left', async (t) => {
    const source = `let held = 'nothing';
    let goOn;
    export default {
      begin: async ({ session }) => { await new Promise((resolve) => { goOn = resolve; }); held = session; return null; },
      end: () => { held = 'ended behind ' + held; },
      stepOne: ({ metadata }) => {
        if (metadata.left === 0) goOn?.();
        return { ...${ANSWER}, observation: goOn === undefined ? 'not begun' : held };
      },
    };`;
    const environment = await make(t, { source, file: 'mine.mjs' });
    const gone = new AbortController();
    const context = { idempotency_key: 'b/0-0/begin-0', signal: gone.signal };
    const begun = environment.begin?.({ message_log: [], metadata: {} }, context);
    const seen = async (left = 1): Promise<unknown> =>
      (await step(environment, { ...TURN, metadata: { left } })).observation?.content;
    while ((await seen()) === 'not begun');
    gone.abort(new Error('stopped'));
    await assert.rejects(Promise.resolve(begun), /stopped/);
    const { signal } = new AbortController();
    const ended = environment.end?.({}, { idempotency_key: 'b/0-0/end-0', signal });
    assert.equal(await seen(0), 'nothing', 'it begins until a step lets it go on');
    await ended;
    assert.equal(await seen(), 'ended behind b/0-0/0');
  });

  test('that begins with what is no state is refused', async (t) => {
    const source = `export default { begin: () => 7, stepOne: () => ${ANSWER} };`;
    const environment = await make(t, { source, file: 'mine.mjs' });
    const context = { idempotency_key: 'b/0-0/begin-0', signal: new AbortController().signal };
    await assert.rejects(
      environment.begin!({ message_log: [], metadata: {} }, context),
      /mine\.mjs answered: metadata: expected object, got 7$/,
    );
  });

  test('cannot change the metadata that it was given', async (t) => {
    const source = `export default { stepOne: (turn) => { turn.metadata.left = 0; return ${ANSWER}; } };`;
    const input = structuredClone(TURN);
    await step(await make(t, { source, file: 'mine.mjs' }), input);
    assert.deepEqual(input, TURN);
  });

  for (const [what, returned, says] of [
    [
      'a reward that is not finite',
      `{ ...${ANSWER}, reward: NaN }`,
      /mine\.mjs answered: reward: /,
    ],
    ['an unknown field', `{ ...${ANSWER}, rewrad: 1 }`, /rewrad: unknown field/],
    ['nothing', `undefined`, /mine\.mjs answered/],
  ] as const) {
    test(`that answers ${what} is rejected by field`, async (t) => {
      const source = `export default { stepOne: () => (${returned}) };`;
      const environment = await make(t, { source, file: 'mine.mjs' });
      await assert.rejects(step(environment), { name: 'EnvironmentRejected', message: says });
    });
  }

  for (const file of ['mine.mjs', 'mine.ts', 'mine.mts']) {
    test(`does not start with a mistake in the syntax of ${file}: the error has its line`, async (t) => {
      const source = 'export default {\n  stepOne() {\n    const x = ;\n  },\n};\n';
      const says = new RegExp(
        `SyntaxError: Unexpected .*;.* \\(at /.*${file.replace('.', '\\.')}:3\\)$`,
      );
      await assert.rejects(make(t, { source, file }), { message: says });
    });
  }

  for (const [what, source, says] of [
    ['a file that does not parse', `export default {`, /environment mine: cannot load .*mine\.mjs/],
    ['an export that is not there', `export const other = 1;`, /export default of .*only other/],
    [
      'an object without a step',
      `export default { stap() {} };`,
      /export default of .*one with stap/,
    ],
    [
      'a function that throws',
      `export default () => { throw new Error('no key'); };`,
      /mine\.mjs threw: no key/,
    ],
    [
      'a function with a mistake',
      `export default () => null.key;`,
      /threw: TypeError: Cannot read/,
    ],
  ] as const) {
    test(`does not start with ${what}: the error names file and export`, async (t) => {
      await assert.rejects(make(t, { source, file: 'mine.mjs' }), { message: says });
    });
  }
});
