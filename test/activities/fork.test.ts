import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { linesOf } from '../../lab/bed/journal-texts.js';
import { Fault } from '../../src/model/faults.js';
import type { JournalLine } from '../../src/model/journal.js';
import { turnsOf } from '../../src/model/journal/calls.js';
import { outcomeOf } from '../../src/model/journal/outcome.js';
import { SESSION_KEY } from '../../src/model/journal/session.js';
import type { Trajectory } from '../../src/model/journal/trajectory.js';
import { contextOf } from '../../src/model/journal/trajectory.js';
import { toRow } from '../../src/model/results/row.js';
import type { Sample } from '../../src/model/sample.js';
import { pictureName } from '../../src/model/picture-names.js';
import { plainOf } from '../../src/platform/json/kept.js';
import { shownUrl } from '../../src/trajectories/shelf.js';
import type { Bench } from '../fakes/activity-bench.js';
import { at, FORK, forked, opens, plans, played, read, refusal, ROLLOUT } from '../fakes/forked.js';
import { scriptedEnvironment } from '../fakes/scripted-environment.js';
import { deltaOf, idsOf, says } from '../fakes/scripted-service.js';
import { lost, planned } from '../fakes/sessions.js';
import type { Given } from '../fakes/sessions.js';
import { BATCH, REF, sampleOf } from '../fakes/temporary-store.js';

/** Rollouts that begin with what another one has played: from the request to the row. */

const saidIn = (trajectory: Trajectory): string[] =>
  turnsOf(trajectory).map(({ generation }) => generation.content);

const rowOf = (trajectory: Trajectory) =>
  toRow({
    sample: JSON.parse(sampleOf('go')) as Sample,
    ref: FORK,
    semantics: 'standard',
    trajectory,
    outcome: outcomeOf(trajectory, { stop_reason: 'cancelled' }),
  });

describe('a fork at a turn', () => {
  test('samples this turn anew, behind rewards, state and ids of those before', async (t) => {
    const bench = await played(t, { says: [says('e f')], steps: [{ reward: 5 }] });
    const whole = await read(bench, { ...REF, row: 1 });
    const trajectory = await forked(bench, at('turn:1'));
    assert.deepEqual(saidIn(trajectory), ['a b', 'e f']);
    assert.deepEqual([trajectory.total_reward, trajectory.attempts], [6, 1]);
    const { prompt_ids } = bench.service.requests[2]!;
    assert.deepEqual(prompt_ids, contextOf(whole).slice(0, prompt_ids.length));
    assert.deepEqual(prompt_ids, bench.service.requests[1]!.prompt_ids);
    assert.deepEqual(plainOf(bench.environment.steps.at(-1)?.metadata), { at: 1 });
    assert.equal(bench.service.asked.renderChat > 0, true);
    bench.checkPlayed();
  });

  test('is a group of the one sample, with the settings of its batch', async (t) => {
    const bench = await played(t);
    const { result } = await plans(bench, { ...at('turn:1'), num_repeats: 3 });
    assert.deepEqual([result?.samples, result?.num_repeats, result?.min_valid], [1, 3, 1]);
    const { max_rollout_turns, samples, fork } = (await bench.store.findRequest('fork'))!;
    assert.deepEqual([max_rollout_turns, samples], [2, { batch: BATCH }]);
    assert.deepEqual(fork, { ...at('turn:1').fork, train_prefix: false });
    const sample = await bench.store.readSample({ batch_id: 'fork', row: 0 });
    assert.equal(sample.message_log[0]?.content, 'go');
  });

  test('has what was sampled before in its row, which does not train', async (t) => {
    const bench = await played(t, { says: [says('e f')], steps: [{}] });
    const row = rowOf(await forked(bench, at('turn:1')));
    assert.deepEqual([row.forked_from, row.forked_at], [`${BATCH}/1-0`, 'turn:1']);
    assert.deepEqual(row.masked, [{ start: 0, end: 3 }]);
    const ids = row.message_log.flatMap(({ token_ids }) => token_ids);
    const trained = row.train_mask.flatMap(({ start, end }) => ids.slice(start, end));
    assert.deepEqual(trained, idsOf('e f'));
    assert.deepEqual(
      row.segments.map(({ request_id, inherited }) => [request_id.split('.')[0], inherited]),
      [
        ['batch/1-0', true],
        ['fork/0-0', undefined],
      ],
    );
    assert.deepEqual([row.assistant_tokens, row.restarted_turns], [6, []]);
  });

  test('has whatever settings the request changes', async (t) => {
    const bench = await played(t, { says: [says('e f'), says('g')], steps: [{}, {}] });
    const changes = { max_rollout_turns: 3, generation: { temperature: 0.5 } };
    await forked(bench, { ...at('turn:1'), ...changes });
    const [, , third] = bench.service.requests;
    assert.deepEqual([third?.temperature, third?.model], [0.5, 'policy']);
    assert.equal((await read(bench)).end?.stop_reason, 'max_turns');
    bench.checkPlayed();
  });

  test('goes on behind a rollout that had no more turns', async (t) => {
    const bench = await played(t, { says: [says('e')], steps: [{}] });
    const trajectory = await forked(bench, { ...at('turn:2'), max_rollout_turns: 3 });
    assert.deepEqual(saidIn(trajectory), ['a b', 'c d', 'e']);
  });
});

describe('a fork at a token', () => {
  test('goes on within the turn, behind exactly these ids', async (t) => {
    const bench = await played(t, { says: [says('x!')], steps: [{}] });
    const trajectory = await forked(bench, at('token:4'));
    assert.deepEqual(saidIn(trajectory), ['a b', 'cx']);
    const [, second, third] = bench.service.requests;
    assert.deepEqual(third!.prompt_ids, [...second!.prompt_ids, ...idsOf('c')]);
    assert.deepEqual(third?.stop_strings, []);
    const row = rowOf(trajectory);
    assert.deepEqual(row.masked, [{ start: 0, end: 4 }]);
    const [, answer] = row.message_log.filter(({ role }) => role === 'assistant');
    assert.equal(answer?.generation_logprobs?.length, 3);
    bench.checkPlayed();
  });

  test('behind a turn is a fork at the next', async (t) => {
    const bench = await played(t, { says: [says('e')], steps: [{}] });
    assert.deepEqual(saidIn(await forked(bench, at('token:3'))), ['a b', 'e']);
  });

  test('keeps all of its ids where they have a stop string that is new', async (t) => {
    const bench = await played(t, { steps: [{}] });
    const stopping = { ...at('token:5'), generation: { stop_strings: ['c'] } };
    const trajectory = await forked(bench, stopping);
    assert.deepEqual(saidIn(trajectory), ['a b', 'c ']);
    assert.deepEqual(rowOf(trajectory).masked, [{ start: 0, end: 5 }]);
    bench.checkPlayed();
  });

  test('whose attempt dies goes on from what it has, and inherits nothing twice', async (t) => {
    const died = new Fault({ type: 'GenerationUnavailable', message: 'reset' });
    const cut = { deltas: [deltaOf('x')], then: died };
    const bench = await played(t, { says: [cut, says('y!')], steps: [{}] });
    await plans(bench, at('token:4'));
    await opens(bench);
    const { inherited_tokens } = await read(bench);
    assert.equal(inherited_tokens, 0);
    await bench.run('openRollout', { input: FORK, workflow_id: 'fork/0-0', number: 2 });
    const trajectory = await read(bench);
    assert.deepEqual(saidIn(trajectory), ['a b', 'cxy']);
    assert.deepEqual([trajectory.inherited_tokens, trajectory.wasted_tokens], [1, 0]);
    assert.deepEqual(rowOf(trajectory).masked, [{ start: 0, end: 4 }]);
  });
});

test('an attempt that died among inherited lines is followed by one that adds the rest', async (t) => {
  const bench = await played(t, { says: [says('x!')], steps: [{}] });
  await plans(bench, at('token:4'));
  const claim = bench.store.claim.bind(bench.store);
  let lines = 0;
  bench.store.claim = async (...given) => {
    const journal = await claim(...given);
    return {
      ...journal,
      append: async (entry) => {
        if (entry.inherited && (lines += 1) > 2)
          throw new Fault({ type: 'StoreFault', message: 'gone' });
        await journal.append(entry);
      },
    };
  };
  assert.equal(((await opens(bench)).error as { type?: string }).type, 'StoreFault');
  assert.equal((await read(bench)).prefix_lines, 2);
  bench.store.claim = claim;
  await opens(bench);
  const trajectory = await read(bench);
  assert.deepEqual(saidIn(trajectory), ['a b', 'cx']);
  const own = await journalOf(bench);
  assert.equal(own.filter(({ inherited }) => inherited).length, 4);
});

async function journalOf({ root }: Bench): Promise<JournalLine[]> {
  return linesOf(await readFile(`${root}/fork/journals/0-0.jsonl`, 'utf8'));
}

test('a fork has the pictures that the environment has shown before it', async (t) => {
  const url = 'data:image/png;base64,AAAA';
  const shown = { content: [{ type: 'image_url' as const, image_url: { url } }] };
  const bench = await played(t, {
    images: true,
    environment: scriptedEnvironment([shown, {}, {}]),
    says: [says('e f')],
  });
  const trajectory = await forked(bench, at('turn:1'));
  const name = pictureName(url);
  assert.deepEqual(trajectory.observations[0]?.message?.content, [
    { type: 'image_url', image_url: { url: name } },
  ]);
  assert.equal(await shownUrl(name, { ref: FORK, store: bench.store }), url);
});

describe('a fork of a fork', () => {
  test('begins with lines of both, none of which train', async (t) => {
    const bench = await played(t, {
      says: [says('e f'), says('y!')],
      steps: [{ content: 'three', metadata: { at: 3 } }, {}],
    });
    await forked(bench, { ...at('turn:1'), max_rollout_turns: 2 });
    const again = { fork: { rollout_id: 'fork/0-0', at: 'token:5' } };
    const trajectory = await forked(bench, { ...again, id: 'again' });
    assert.deepEqual(saidIn(trajectory), ['a b', 'e y']);
    const row = rowOf(trajectory);
    assert.deepEqual([row.forked_from, row.forked_at], ['fork/0-0', 'token:5']);
    assert.deepEqual(row.masked, [{ start: 0, end: 5 }]);
    bench.checkPlayed();
  });

  test('has the state of a turn that the first fork has inherited', async (t) => {
    const bench = await played(t, { says: [says('e'), says('y'), says('z')], steps: [{}, {}, {}] });
    await forked(bench, { ...at('turn:2'), max_rollout_turns: 3 });
    await forked(bench, { fork: { rollout_id: 'fork/0-0', at: 'turn:1' }, id: 'again' });
    assert.deepEqual(plainOf(bench.environment.steps[3]?.metadata), { at: 1 });
  });
});

describe('train_prefix', () => {
  const weights = (...said: (string | null)[]) => ({
    weights: said,
    request: { policy_version: 'v1' },
  });

  test('trains on the tokens before the fork, which the weights that go on have sampled', async (t) => {
    const bench = await played(t, { says: [says('e f')], steps: [{}], ...weights('v1') });
    const row = rowOf(await forked(bench, at('turn:1', { train_prefix: true })));
    assert.equal(row.masked, undefined);
    const trained = row.train_mask.reduce((sum, { start, end }) => sum + end - start, 0);
    assert.equal(trained, 6);
  });

  test('is refused where nobody knows these weights, or other weights serve', async (t) => {
    const unknown = await played(t, {});
    assert.match(
      await refusal(unknown, at('turn:1', { train_prefix: true })),
      /^fork\.train_prefix: expected tokens of one known version/,
    );
    const moved = weights('v1');
    const bench = await played(t, moved);
    moved.weights[0] = 'v2';
    assert.match(
      await refusal(bench, at('turn:1', { train_prefix: true })),
      /^policy_version: expected that .* serves "v1", got "v2"/,
    );
    assert.match(
      await refusal(bench, { ...at('turn:1', { train_prefix: true }), policy_version: 'v2' }),
      /^policy_version: expected "v1" with fork\.train_prefix/,
    );
  });

  test('fails by name where its own tokens turn out to have another version', async (t) => {
    const moved = weights('v1');
    const bench = await played(t, { says: [says('e f')], ...moved });
    await plans(bench, at('turn:1', { train_prefix: true }));
    moved.weights[0] = 'v2';
    const { error } = await opens(bench);
    const { type, message, nonRetryable } = error as Record<string, unknown>;
    assert.deepEqual([type, nonRetryable], ['PolicyVersionMismatch', true]);
    assert.match(String(message), /^fork\.train_prefix: expected tokens of version "v1"/);
  });
});

describe('a fork in an environment with sessions', () => {
  const given = (more: Given): Given => ({
    plays_on: true,
    request: { max_rollout_turns: 2 },
    ...more,
    says: [says('a b'), says('c d'), ...(more.says ?? [])],
    script: [
      { content: 'one', reward: 1, metadata: { at: 1, [SESSION_KEY]: 1 } },
      { content: 'two', metadata: { at: 2, [SESSION_KEY]: 1 } },
      ...(more.script ?? []),
    ],
  });
  const one = { content: 'one', reward: 9, metadata: { at: 1, [SESSION_KEY]: 2 } };
  const fork = (place: string) => ({ fork: { rollout_id: ROLLOUT, at: place } });

  test('steps the turns again in a session of its own', async (t) => {
    const bench = await planned(
      t,
      given({ says: [says('e f')], script: [one, { content: 'end' }] }),
    );
    await bench.result('openRollout', REF);
    const trajectory = await forked(bench, fork('turn:1'));
    assert.deepEqual(saidIn(trajectory), ['a b', 'e f']);
    assert.deepEqual(
      bench.sessions.begun.map(({ key }) => key),
      ['batch/0-0/begin-0', 'fork/0-0/begin-0'],
    );
    const [, , again, own] = bench.sessions.steps;
    assert.deepEqual(again!.message_log.at(-1)?.content, 'a b');
    assert.deepEqual(
      [again!.idempotency_key, plainOf(own?.metadata)],
      ['fork/0-0/0', { at: 1, [SESSION_KEY]: 2 }],
    );
    // As it was paid.
    assert.equal(trajectory.total_reward, 1);
    bench.checkPlayed();
  });

  test('is ReplayDiffers where the environment says something else, or ends', async (t) => {
    for (const other of [
      { ...one, content: 'uno' },
      { ...one, terminated: true },
    ]) {
      const bench = await planned(t, given({ script: [other] }));
      await bench.result('openRollout', REF);
      await plans(bench, fork('turn:1'));
      const { error } = await opens(bench);
      const { type, message, nonRetryable } = error as Record<string, unknown>;
      assert.deepEqual([type, nonRetryable], ['ReplayDiffers', true]);
      assert.match(
        String(message),
        /^turn 0: expected what the environment said in .* "one", got "(uno|the end of its episode)"/,
      );
    }
  });

  test('starts over with the same turns when it loses its session', async (t) => {
    const bench = await planned(
      t,
      given({ says: [says('e f'), says('g')], script: [one, lost, one, { content: 'end' }] }),
    );
    await bench.result('openRollout', REF);
    const trajectory = await forked(bench, fork('turn:1'));
    assert.deepEqual(saidIn(trajectory), ['a b', 'g']);
    assert.equal(trajectory.session.lives, 2);
    bench.checkPlayed();
  });
});
