/** Weights that somebody else changes while a stream is open, and the journal of its tokens. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { labelByFence } from '../../src/sampling/labels.js';
import { createSampler } from '../../src/sampling/recorded-request.js';
import { tapeOf } from '../../src/sampling/tape.js';
import type { Delta, GenerationRequest } from '../../src/generation/generation-service.js';
import { CutOff } from '../../src/generation/generation-service.js';
import type { PolicyRecord } from '../../src/model/policy/record.js';
import { firstRecord, withReplica } from '../../src/model/policy/record.js';
import { activityBench } from '../fakes/activity-bench.js';
import { SETTINGS } from '../fakes/journal-lines.js';
import type { ScriptedReply } from '../fakes/scripted-service.js';
import { deltaOf, scriptedService } from '../fakes/scripted-service.js';
import { CUT } from '../fakes/resumed-turn.js';
import { REF, faultOf } from '../fakes/temporary-store.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';

const LOST = { type: CUT.type, message: CUT.message };
const finish = { finish_reason: 'stop', stop_reason: null } as const;
const LAST: Delta = { ...deltaOf('all'), finish };

/** A turn of 'old ' under 17, continued by a stream of this script during which `change` comes. */
async function sampled(
  t: TestContext,
  {
    reply,
    says,
    moved = false,
  }: {
    reply: ScriptedReply;
    says: () => string;
    /** An update of the replica has begun, and the stream's wire names the weights of its tokens. */
    moved?: boolean;
  },
) {
  const service = scriptedService([reply], { weightVersion: says });
  const bench = await activityBench(t, { service });
  await bench.started();
  const journal = await bench.store.claim(REF, { activity: 'generateTurn' });
  const { replica } = service;
  const facts = { turn: 0, replica, request_id: 'first' };
  await journal.append({
    kind: 'chunk',
    ...facts,
    offset: 0,
    ...deltaOf('old '),
    policy_version: '17',
    version_source: 'record',
  });
  const record: PolicyRecord = withReplica(firstRecord([replica]), {
    replica,
    state: 'current',
    version: 17,
  });
  const distrusted: string[] = [];
  const { signal } = new AbortController();
  const updating = withReplica(record, {
    replica,
    state: 'updating',
    version: 17,
    paused_until: Number.MAX_SAFE_INTEGER,
  });
  const latest = () => Promise.resolve(moved ? updating : record);
  const labels = labelByFence({
    fence: { version: 17, adapter: null, epoch: 1, record_epoch: record.epoch },
    policy: { latest, at: latest },
    service,
    names_spans: () => moved,
    offset: openAnswer(journal.trajectory).token_ids.length,
    signal,
    sleep: () => Promise.resolve(),
    distrust: (why) => Promise.resolve(void distrusted.push(why)),
  });
  const sample = createSampler({
    tape: tapeOf(journal, 0),
    service,
    settings: SETTINGS,
    facts: { ...facts, request_id: 'second' },
    said: () => 0,
    room: () => 600,
    labels,
    policy: { latest },
    signal,
  });
  const error = await sample({} as GenerationRequest, { signal, onDelta: (delta) => delta }).then(
    () => null,
    (thrown: unknown) => thrown,
  );
  const open = openAnswer(journal.trajectory);
  await journal.release();
  return { error, distrusted, open };
}

/** Answers the first question, of the stream's first tokens, and then the second one. */
const thenSays = (second: string) => {
  let asked = 0;
  return () => (asked++ === 0 ? '17' : second);
};

for (const [name, reply] of [
  ['that is whole', { deltas: [deltaOf('new '), LAST] }],
  ['that is cut', { deltas: [deltaOf('new ')], then: CUT }],
] as const)
  test(`a stream ${name} keeps nothing that other weights may have sampled, and what came before it stays`, async (t) => {
    const { error, distrusted, open } = await sampled(t, { reply, says: thenSays('42') });
    assert.ok(faultOf('PolicyVersionMismatch', /"17".*"42"/)(error));
    assert.equal(distrusted.length, 1);
    assert.deepEqual(
      open.segments.map(({ end, policy_version }) => [end, policy_version]),
      [[4, '17']],
    );
    assert.equal(open.finish, null);
  });

test('a stream whose engine says the same at its end is of one version', async (t) => {
  const reply = { deltas: [deltaOf('new '), LAST] };
  const { error, open } = await sampled(t, { reply, says: thenSays('17') });
  assert.equal(error, null);
  const { segments, token_ids } = open;
  assert.deepEqual([...new Set(segments.map(({ policy_version }) => policy_version))], ['17']);
  assert.equal(token_ids.length, 11);
});

for (const [what, then, segments] of [
  ['names their weights', new CutOff(LOST, [{ version: '17', start: 0, end: 4 }]), [[8, '17']]],
  [
    'names others for the last',
    new CutOff(LOST, [
      { version: '17', start: 0, end: 2 },
      { version: '18?x', start: 2, end: 4 },
    ]),
    [
      [6, '17'],
      [8, null],
    ],
  ],
  [
    'names none',
    CUT,
    [
      [4, '17'],
      [8, null],
    ],
  ],
] as const)
  test(`an engine that is paused cuts a stream off, and ${what}: so its tokens are labelled`, async (t) => {
    const reply = { deltas: [deltaOf('new ')], then };
    const { open } = await sampled(t, { reply, says: () => '17', moved: true });
    const found = open.segments.map(({ end, policy_version }) => [end, policy_version]);
    assert.deepEqual(
      found.filter(([, version], i) => version !== found[i + 1]?.[1]),
      segments,
    );
  });
