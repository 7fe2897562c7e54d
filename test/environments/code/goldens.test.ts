import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { after, describe, test } from 'node:test';
import { z } from 'zod';
import { formatResult } from '../../../src/environments/code/format.js';
import { faultOf } from '../../fakes/temporary-store.js';
import { codeBed, createRollout } from './code-bed.js';

/** Runs of upstream's code environment, recorded: `semantics: nemo-rl` answers the same. */

const Observation = z.object({ role: z.literal('environment'), content: z.string() });
const Raises = z.object({ type: z.string(), message: z.string() });
const Step = z.object({
  message: z.string(),
  observation: Observation.optional(),
  terminated: z.boolean().optional(),
  raises: Raises.optional(),
  python_3_13: z.object({ observation: Observation, terminated: z.boolean() }).optional(),
});
const Session = z.object({
  name: z.string(),
  kind: z.literal('session'),
  terminate_on_evaluation: z.boolean(),
  steps: z.array(Step),
});
const Batch = z.object({
  name: z.string(),
  kind: z.literal('batch'),
  messages: z.array(z.string()),
  expected: z.union([
    z.object({ error: Raises }),
    z.object({
      observations: z.array(Observation),
      terminateds: z.array(z.boolean()),
      rewards: z.array(z.number()),
      next_stop_strings: z.array(z.array(z.string())),
    }),
  ]),
});
const Format = z.object({
  name: z.string(),
  kind: z.literal('format_result'),
  cases: z.array(
    z.object({
      result_python: z.string(),
      code: z.string().nullable(),
      lookahead: z.string().nullable(),
      output: z.string(),
    }),
  ),
});
const Golden = z.discriminatedUnion('kind', [Session, Batch, Format]);

const folder = new URL('../../goldens/code/', import.meta.url);
const goldens = readdirSync(folder)
  .filter((name) => name.endsWith('.json'))
  .map((name) => Golden.parse(JSON.parse(readFileSync(new URL(name, folder), 'utf8'))));
const sessions = goldens.filter((golden) => golden.kind === 'session');
const batches = goldens.filter((golden) => golden.kind === 'batch');
const formats = goldens.filter((golden) => golden.kind === 'format_result');

const NEMO = { semantics: 'nemo-rl', unsafe: process.platform !== 'linux' };
const environments = {
  ending: codeBed({ after }, NEMO),
  going_on: codeBed({ after }, { ...NEMO, terminate_on_evaluation: false }),
};

test('every recorded case is here', () => {
  assert.equal(goldens.length, 43);
});

const ways = [
  { name: 'in one interpreter', key: (session: string) => session },
  { name: 'in an interpreter that is made anew at each turn', key: () => randomUUID() },
];
for (const { name: way, key } of ways) {
  describe(`recorded sessions ${way}`, { concurrency: 2 }, () => {
    for (const { name, steps, terminate_on_evaluation } of sessions) {
      test(`${name} answers as upstream did`, async () => {
        const { environment } = environments[terminate_on_evaluation ? 'ending' : 'going_on'];
        const rollout = createRollout(environment, { key: key(name) });
        for (const step of steps) {
          rollout.key = key(name);
          await replay(rollout, step);
        }
      });
    }
  });
}

async function replay(
  rollout: ReturnType<typeof createRollout>,
  { message, observation, terminated, raises, python_3_13 }: z.infer<typeof Step>,
): Promise<void> {
  if (raises !== undefined) {
    const { type, message: text } = raises;
    await assert.rejects(rollout.say(message), faultOf('EnvironmentRejected', type, text));
    return;
  }
  const answer = await rollout.say(message);
  const variants = [{ observation, terminated }, ...(python_3_13 ? [python_3_13] : [])];
  const found = variants.find((variant) => variant.observation?.content === answer.content);
  assert.deepEqual(
    answer,
    { content: found?.observation?.content, terminated: found?.terminated },
    `expected ${JSON.stringify(variants)}`,
  );
}

for (const { name, messages, expected } of batches) {
  test(`${name}: each sample of a step has variables of its own`, async () => {
    const { environment } = environments.ending;
    const stepping = Promise.all(
      messages.map((content, i) =>
        environment.step(
          { message_log: [{ role: 'assistant', content }], metadata: {} },
          { idempotency_key: `${name}#${i}/0`, signal: new AbortController().signal },
        ),
      ),
    );
    if ('error' in expected) {
      const { type, message } = expected.error;
      await assert.rejects(stepping, faultOf('EnvironmentRejected', type, message));
      return;
    }
    const answers = await stepping;
    const listed = {
      observations: answers.map(({ observation }) => observation),
      terminateds: answers.map(({ terminated }) => terminated),
      rewards: answers.map(({ reward }) => reward),
      next_stop_strings: answers.map(({ next_stop_strings }) => next_stop_strings),
    };
    assert.deepEqual(listed, expected);
  });
}

for (const { name, cases } of formats) {
  test(`${name}: values look as upstream's, less what the model has written already`, async () => {
    const { sandbox } = environments.ending;
    for (const { result_python, code, lookahead, output } of cases) {
      const ran = await sandbox.run({
        ...{ session: randomUUID(), history: [], blocks: [result_python] },
        check: () => undefined,
        signal: new AbortController().signal,
      });
      const outcome = 'outcomes' in ran ? ran.outcomes[0] : undefined;
      assert.equal(outcome?.status, 'ok');
      const text = outcome.value;
      const got = formatResult({ text, code: code ?? '', lookahead: lookahead ?? '' });
      assert.equal(got, output, `${result_python} of ${JSON.stringify(code)}`);
    }
  });
}
