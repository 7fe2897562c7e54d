/** Modules in threads: what their code holds up, and what it does not. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ForeignObject } from '../../src/model/foreign-object.js';
import type { ExactEnvironment, TurnAnswer } from '../../src/environments/environment.js';
import type { EnvironmentContext } from '../../src/environments/environment-context.js';
import { createEnvironment, EnvironmentSettings } from '../../src/environments/registry.js';
import { Fault } from '../../src/model/faults.js';
import { bareContext } from '../fakes/environment-context.js';
import { faultOf } from '../harness/fault-of.js';

interface Given {
  source?: string;
  timeout?: string;
  context?: Partial<EnvironmentContext>;
}

async function make(
  t: TestContext,
  { source = SOURCE, timeout = '2s', context = {} }: Given = {},
): Promise<ExactEnvironment> {
  const folder = await mkdtemp(path.join(tmpdir(), 'module-'));
  t.after(() => rm(folder, { recursive: true }));
  const file = path.join(folder, 'mine.mjs');
  await writeFile(file, source);
  const settings = EnvironmentSettings.parse({ kind: 'module', path: file, timeout });
  const environment = await createEnvironment(settings, bareContext({ name: 'mine', ...context }));
  t.after(() => environment.close?.());
  return environment;
}

const { signal } = new AbortController();
const say = (
  environment: ExactEnvironment,
  said: string | { content: string; signal: AbortSignal },
): Promise<TurnAnswer<ForeignObject>> => {
  const { content, signal: asked } = typeof said === 'string' ? { content: said, signal } : said;
  return environment.step(
    { message_log: [{ role: 'assistant', content }], metadata: {} },
    { idempotency_key: `b/0-0/${content}`, signal: asked },
  );
};

/** `loop`: forever. `wait`: never answers, and blocks nothing. Anything else is answered. */
const SOURCE = `
const id = String(Math.random());
export default () => {
  return {
    stepOne: async ({ message_log }) => {
      const said = message_log.at(-1).content;
      if (said === 'wait') await new Promise(() => undefined);
      if (said === 'throw') throw new RangeError('no such move');
      if (said === 'exit') process.exit(3);
      while (said === 'loop') {}
      return { observation: said === 'id' ? id : said, reward: 1, terminated: true };
    },
  };
};`;

describe('a module whose code does not come back', () => {
  test('from a loop fails its turn within the deadline, while another environment and this process continue', async (t) => {
    const [mine, other] = [await make(t), await make(t)];
    let beats = 0;
    const beating = setInterval(() => (beats += 1), 20);
    t.after(() => {
      clearInterval(beating);
    });
    const looping = faultOf(say(mine, 'loop'));
    assert.equal((await say(other, 'hi')).reward, 1);
    const { type, message } = await looping;
    assert.equal(type, 'EnvironmentFailed');
    assert.match(
      message,
      /export default of .*mine\.mjs did not answer step within 2s \(its timeout\): its code held the thread/,
    );
    assert.ok(beats > 5, `${beats} beats of the event loop`);
    assert.equal((await say(mine, 'again')).reward, 1, 'in a thread that was made again');
  });

  test('costs calls that had not begun nothing', async (t) => {
    const mine = await make(t);
    const looping = faultOf(say(mine, 'loop'));
    const others = await Promise.all(['a', 'b', 'c'].map((content) => say(mine, content)));
    assert.deepEqual(
      others.map(({ observation }) => observation?.content),
      ['a', 'b', 'c'],
    );
    assert.equal((await looping).type, 'EnvironmentFailed');
  });

  test('costs a call that had begun, and is neither late nor the last that began, no attempt', async (t) => {
    const mine = await make(t, { timeout: '5s' });
    const late = faultOf(say(mine, 'wait'));
    // The thread has a second to answer a ping; the next deadline comes after it.
    await sleep(3500);
    const innocent = faultOf(say(mine, 'wait'));
    await sleep(200);
    const last = faultOf(say(mine, 'loop'));
    const types = (await Promise.all([late, innocent, last])).map(({ type }) => type);
    assert.deepEqual(types, ['EnvironmentFailed', 'EnvironmentUnavailable', 'EnvironmentFailed']);
  });

  test('from a promise fails its own turn alone', async (t) => {
    const mine = await make(t);
    const waiting = faultOf(say(mine, 'wait'));
    assert.equal((await say(mine, 'hi')).reward, 1);
    const { type, message } = await waiting;
    assert.equal(type, 'EnvironmentFailed');
    assert.match(message, /did not answer step within 2s .*: its promise has not settled$/);
  });

  test('from several promises at once fails their turns alone: what it holds stays', async (t) => {
    const mine = await make(t);
    const idOf = async () => (await say(mine, 'id')).observation?.content;
    const before = await idOf();
    const waiting = await Promise.all(
      ['wait', 'wait', 'wait'].map((said) => faultOf(say(mine, said))),
    );
    assert.deepEqual(
      waiting.map(({ type }) => type),
      Array(3).fill('EnvironmentFailed'),
    );
    // A thread that seems to be blocked by a loop is ended a second later.
    await sleep(1500);
    assert.equal(await idOf(), before, 'its thread was ended');
  });

  test('since it ends the process ends its thread alone', async (t) => {
    const mine = await make(t);
    const { type, message } = await faultOf(say(mine, 'exit'));
    assert.equal(type, 'EnvironmentFailed');
    assert.match(message, /ended its thread with code 3/);
    assert.equal((await say(mine, 'hi')).reward, 1);
  });

  test('is ended even if its caller has left', async (t) => {
    const mine = await make(t);
    const cancelled = new AbortController();
    const looping = say(mine, { content: 'loop', signal: cancelled.signal });
    cancelled.abort(new Error('cancelled'));
    await assert.rejects(looping, { message: 'cancelled' });
    assert.equal((await say(mine, 'hi')).reward, 1);
  });
});

describe('a module in its thread', () => {
  test('throws with its own text', async (t) => {
    const mine = await make(t);
    await assert.rejects(say(mine, 'throw'), {
      message: 'RangeError: no such move (at mine.mjs:8 in stepOne)',
    });
  });

  test('that answers what cannot be sent is rejected', async (t) => {
    const source = `export default { step: () => ({ observations: [() => 1] }) };`;
    const { type, message } = await faultOf(say(await make(t, { source }), 'hi'));
    assert.equal(type, 'EnvironmentRejected');
    assert.match(message, /what no JSON can hold/);
  });

  for (const [what, metadata] of [
    ['a circle', '(() => { const one = {}; one.one = one; return one; })()'],
    ['a BigInt', '{ n: 10n }'],
  ] as const)
    test(`that answers ${what} is rejected, since the next attempt would too`, async (t) => {
      const source = `export default { stepOne: () => ({ observation: '', reward: 0, terminated: true, metadata: ${metadata} }) };`;
      const { type, message } = await faultOf(say(await make(t, { source }), 'hi'));
      assert.equal(type, 'EnvironmentRejected');
      assert.match(message, /what no JSON can hold/);
    });

  test('whose libraries post to the process as if it were theirs disturbs nothing', async (t) => {
    const source = `
      import { parentPort } from 'node:worker_threads';
      export default { stepOne: () => {
        for (const one of [null, undefined, 'ready', 7, {}, { kind: 'hello' }, { id: 0, result: 1 }]) parentPort.postMessage(one);
        return { observation: 'seen', reward: 1, terminated: true };
      } };`;
    const mine = await make(t, { source });
    for (let i = 0; i < 2; i++) assert.equal((await say(mine, 'hi')).reward, 1);
  });

  test('is given variables, retrievers, the grader and reports as before', async (t) => {
    const reports: string[] = [];
    const context: Partial<EnvironmentContext> = {
      env: (variable) => (variable === 'KEY' ? 'secret' : undefined),
      report: (message) => void reports.push(message),
      retriever: () =>
        Promise.resolve({
          document_count: 7,
          search: (text, { num_results = 0 } = {}) => [{ id: num_results, text, score: 1 }],
        }),
    };
    const source = `
      export default async (settings, context) => {
        context.report(context.env('KEY') + context.env('NONE'));
        const wiki = await context.retriever('wiki');
        return {
          stepOne: () => {
            const [{ id, text }] = wiki.search('query', { num_results: 3 });
            return { observation: text + id + wiki.document_count, reward: 0, terminated: true };
          },
        };
      };`;
    const { observation } = await say(await make(t, { source, context }), 'hi');
    assert.deepEqual(observation?.content, 'query37');
    assert.deepEqual(reports, ['secretundefined']);
  });

  test('passes on the faults of what it was given', async (t) => {
    const away = new Fault({ type: 'EnvironmentUnavailable', message: 'no grader', at: 'here' });
    const grader = { ...bareContext().grader, compare: () => Promise.reject(away) };
    const source = `
      export default (settings, { grader }) => ({ stepOne: () => grader.compare({ gold: '1', answer: '1' }) });`;
    const fault = await faultOf(say(await make(t, { source, context: { grader } }), 'hi'));
    assert.deepEqual(
      [fault.type, fault.message, fault.at],
      ['EnvironmentUnavailable', 'no grader', 'here'],
    );
  });

  test('reads the rollouts for its metrics one by one, and has its other functions', async (t) => {
    const source = `
      let ended = 0;
      export default {
        stepOne: () => ({ observation: '', reward: 0, terminated: true }),
        globalPostProcessAndMetrics: async (rollouts) => {
          let sum = 0;
          for await (const { total_reward } of rollouts) sum += total_reward;
          return { sum };
        },
        health: () => { throw new Error('not well'); },
        close: () => { ended += 1; },
      };`;
    const mine = await make(t, { source });
    function* rollouts() {
      for (let total_reward = 1; total_reward <= 4; total_reward++)
        yield { message_log: [], total_reward, rewards: {}, extra_env_info: {} };
    }
    assert.deepEqual(await mine.globalPostProcessAndMetrics?.(rollouts(), signal), { sum: 10 });
    await assert.rejects(mine.health!(signal), { message: 'not well (at mine.mjs:10 in health)' });
    await mine.close?.();
  });

  test('that loops while it is loaded does not start, and says so', async (t) => {
    await assert.rejects(make(t, { source: 'while (true) {}' }), {
      message: /did not load within/,
    });
  });
});
