import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Fault } from '../../src/model/faults.js';
import type { RolloutSettings } from '../../src/model/journal.js';
import type { Trajectory } from '../../src/model/journal/trajectory.js';
import type { Bench, Parts } from '../fakes/activity-bench.js';
import { AT, activityBench } from '../fakes/activity-bench.js';
import { manualClock } from '../fakes/manual-clock.js';
import type { ScriptedReply, ScriptedService } from '../fakes/scripted-service.js';
import { deltaOf, idsOf, says, scriptedService } from '../fakes/scripted-service.js';
import { REF } from '../fakes/temporary-store.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';

const CUT = new Fault({ type: 'GenerationUnavailable', message: 'the stream was cut' });
const cutAfter = (text: string): ScriptedReply => ({ deltas: [deltaOf(text)], then: CUT });
const SETTINGS = { policy_version: 'v1' };
const ONE = { ...SETTINGS, max_version_span: 1 };

interface Given extends Parts {
  service: ScriptedService;
  settings?: Partial<RolloutSettings>;
  stop_strings?: string[];
}

async function started(
  t: TestContext,
  { settings = SETTINGS, stop_strings, ...parts }: Given,
): Promise<Bench> {
  const bench = await activityBench(t, parts);
  await bench.started({ settings, ...(stop_strings !== undefined && { stop_strings }) });
  return bench;
}

/** A turn that is played until its generation is whole. */
async function played(t: TestContext, given: Given): Promise<Trajectory> {
  const bench = await started(t, given);
  for (let attempts = 0; attempts < 3; attempts++) {
    const { error } = await bench.run('generateTurn', { input: AT });
    if (error === undefined) break;
  }
  bench.checkPlayed();
  const trajectory = await bench.elsewhere().readTrajectory(REF);
  assert.notEqual(openAnswer(trajectory).generation, null, 'the generation is not whole');
  return trajectory;
}

interface RowRange {
  text: string;
  /** Silence before it. */
  ms?: number;
  /** The weights that are loaded in that silence. */
  version?: string;
}

/** An engine under v1 whose weights change while it streams; a part that fails loudly is not asked for. */
function changingService(replies: readonly (readonly RowRange[])[]) {
  let version = 'v1';
  const asked: string[] = [];
  const streamed: string[] = [];
  const service = scriptedService(
    replies.map(() => ({})),
    {
      weightVersion: () => {
        asked.push(version);
        return version;
      },
    },
  );
  const generate = service.generate.bind(service);
  const left = [...replies];
  service.generate = async (request, context) => {
    for (const part of left.shift() ?? []) {
      if (part.version !== undefined) version = part.version;
      if (part.ms !== undefined)
        await sleep(part.ms, undefined, { signal: context.signal }).catch(() => undefined);
      context.signal.throwIfAborted();
      context.onDelta(deltaOf(part.text));
      streamed.push(part.text);
    }
    return await generate(request, context);
  };
  return { service, asked, streamed };
}

const versionsOf = (trajectory: Trajectory): [number, string | null][] =>
  openAnswer(trajectory).segments.map(({ end, policy_version }) => [end, policy_version]);

describe('a generation that continues under other weights', () => {
  /** The weights change between the first attempt and the next, once the cut stream has been asked about. */
  async function changed(
    t: TestContext,
    { script, settings }: { script: readonly ScriptedReply[]; settings: Partial<RolloutSettings> },
  ): Promise<{ service: ScriptedService; trajectory: Trajectory }> {
    let version = 'v1';
    let isCut = false;
    const service = scriptedService(script, {
      weightVersion: () => {
        const now = version;
        if (isCut) version = 'v2';
        return now;
      },
    });
    const generate = service.generate.bind(service);
    service.generate = async (...given) => {
      try {
        return await generate(...given);
      } catch (error) {
        isCut = true;
        throw error;
      }
    };
    return { service, trajectory: await played(t, { service, settings }) };
  }

  test('carries both versions', async (t) => {
    const script = [cutAfter('ab'), says('cd')];
    const { trajectory } = await changed(t, { script, settings: SETTINGS });
    assert.deepEqual(versionsOf(trajectory), [
      [2, 'v1'],
      [4, 'v2'],
    ]);
  });

  test('starts over where the batch does not allow the mixture', async (t) => {
    const script = [cutAfter('ab'), says('cd')];
    const { service, trajectory } = await changed(t, { script, settings: ONE });
    assert.deepEqual(service.requests[1]?.prompt_ids, [901, 902]);
    assert.deepEqual(openAnswer(trajectory).token_ids, idsOf('cd'));
    assert.deepEqual(versionsOf(trajectory), [[2, 'v2']]);
  });

  test('starts over also if the batch gives no label', async (t) => {
    const script = [cutAfter('ab'), says('cd')];
    const settings = { policy_version: null, max_version_span: 1 };
    const { trajectory } = await changed(t, { script, settings });
    assert.deepEqual(versionsOf(trajectory), [[2, 'v2']]);
  });

  test('and was over before stays as it is: nothing more is sampled', async (t) => {
    const finish = { finish_reason: 'stop', stop_reason: null } as const;
    const script = [{ deltas: [{ ...deltaOf('left¶'), finish }], then: CUT }];
    const { service, trajectory } = await changed(t, { script, settings: ONE });
    assert.equal(service.asked.generate, 1);
    assert.deepEqual(
      [openAnswer(trajectory).generation?.content, trajectory.wasted_tokens],
      ['left', 0],
    );
    assert.deepEqual(versionsOf(trajectory), [[5, 'v1']]);
  });
});

describe('weights that change while a generation streams', () => {
  const HELD = 600;

  test('leave it without a label from the last answer on, and nothing is wasted', async (t) => {
    const { service, asked } = changingService([
      [{ text: 'old ' }, { text: 'new', ms: HELD, version: 'v2' }, { text: 'er' }],
    ]);
    const trajectory = await played(t, { service });
    assert.deepEqual(versionsOf(trajectory), [[9, null]]);
    const open = openAnswer(trajectory);
    const { wasted_tokens } = trajectory;
    assert.deepEqual([open.generation?.content, wasted_tokens], ['old newer', 0]);
    assert.deepEqual(open.token_ids, idsOf('old newer'));
    assert.deepEqual(open.logprobs, deltaOf('old newer').logprobs);
    assert.ok(asked.length <= 3, `asked ${asked.length} times`);
  });

  test('before its first token may have sampled none of it or all of it: it starts over where the batch allows one', async (t) => {
    const { service } = changingService([
      [{ text: 'all new', ms: HELD, version: 'v2' }],
      [{ text: 'again' }],
    ]);
    const trajectory = await played(t, { service, settings: ONE });
    assert.deepEqual(versionsOf(trajectory), [[5, 'v2']]);
    assert.deepEqual(
      [openAnswer(trajectory).generation?.content, trajectory.wasted_tokens],
      ['again', 7],
    );
  });

  test('of a stream that is cut before it is asked about are unknown', async (t) => {
    let version = 'v1';
    const service = scriptedService([cutAfter('ab'), says('cd')], { weightVersion: () => version });
    const generate = service.generate.bind(service);
    service.generate = (...given) => {
      version = 'v2';
      return generate(...given);
    };
    assert.deepEqual(versionsOf(await played(t, { service })), [
      [2, null],
      [4, 'v2'],
    ]);
  });

  test('end it where the batch does not allow the mixture: it starts over', async (t) => {
    const { service, streamed } = changingService([
      [{ text: 'old' }, { text: 'new', ms: HELD, version: 'v2' }, { text: 'vain', ms: 60_000 }],
      [{ text: 'whole' }],
    ]);
    const bench = await started(t, { service, settings: ONE });
    const { error } = await bench.run('generateTurn', { input: AT });
    assert.equal(error, undefined);
    assert.deepEqual(streamed, ['old', 'new', 'whole']);
    const trajectory = await bench.elsewhere().readTrajectory(REF);
    assert.deepEqual(versionsOf(trajectory), [[5, 'v2']]);
    const open = openAnswer(trajectory);
    const { wasted_tokens, faults } = trajectory;
    assert.deepEqual([open.generation?.content, wasted_tokens, faults], ['whole', 6, {}]);
  });

  test('in no silence are seen at its end, and recorded', async (t) => {
    const { service } = changingService([[{ text: 'a' }, { text: 'b', version: 'v2', ms: 50 }]]);
    assert.deepEqual(versionsOf(await played(t, { service })), [[2, null]]);
  });

  test('in no silence let it start over where the batch allows no mixture', async (t) => {
    const { service } = changingService([[{ text: 'a', version: 'v2' }], [{ text: 'b' }]]);
    const trajectory = await played(t, { service, settings: ONE });
    assert.deepEqual(versionsOf(trajectory), [[1, 'v2']]);
    assert.deepEqual(
      [openAnswer(trajectory).generation?.content, trajectory.wasted_tokens],
      ['b', 1],
    );
  });

  test('are seen where a stop string ends a resumed one, too', async (t) => {
    let version = 'v1';
    const silence: ScriptedReply = { deltas: [deltaOf('/a> and')], then: 'silence' };
    const service = scriptedService([cutAfter('<a>up<'), silence], {
      weightVersion: () => version,
    });
    const generate = service.generate.bind(service);
    service.generate = (...given) => {
      if (service.requests.length === 1) version = 'v2';
      return generate(...given);
    };
    const trajectory = await played(t, { service, stop_strings: ['</a>'] });
    assert.equal(openAnswer(trajectory).generation?.content, '<a>up</a>');
    assert.deepEqual(versionsOf(trajectory), [
      [6, 'v1'],
      [9, null],
    ]);
  });
});

describe('a version that is not known is null', () => {
  const asking = (weightVersion: () => string | null) =>
    scriptedService([says('x')], { weightVersion });

  test('where the replica does not say: never the label that the batch expects', async (t) => {
    const trajectory = await played(t, { service: asking(() => null), settings: SETTINGS });
    assert.deepEqual(versionsOf(trajectory), [[1, null]]);
  });

  test('and one that the replica says is recorded also where the batch expects none', async (t) => {
    const settings = { policy_version: null };
    const trajectory = await played(t, { service: asking(() => 'v3'), settings });
    assert.deepEqual(versionsOf(trajectory), [[1, 'v3']]);
  });

  test('where the batch expects none and the replica fails to say: that is no fault', async (t) => {
    const away = new Fault({ type: 'GenerationUnavailable', message: '503 busy' });
    const service = asking(() => {
      throw away;
    });
    const trajectory = await played(t, { service, settings: { policy_version: null } });
    assert.deepEqual([versionsOf(trajectory), trajectory.faults], [[[1, null]], {}]);
  });

  test('but weights that change in its stream without a silence are seen at its end', async (t) => {
    const { service, asked } = changingService([
      [{ text: 'a' }, { text: 'b', version: 'v2', ms: 50 }],
    ]);
    const trajectory = await played(t, { service, settings: { policy_version: null } });
    assert.deepEqual(versionsOf(trajectory), [[2, null]]);
    assert.deepEqual(asked, ['v1', 'v2']);
  });
});

test('a whole generation that mixes too many versions is rejected, by any worker', async (t) => {
  const service = scriptedService([says('new')], { weightVersion: () => 'v2' });
  const bench = await started(t, { service, settings: ONE });
  const journal = await bench.store.claim(REF, { activity: 'generateTurn' });
  const facts = { kind: 'chunk', turn: 0, replica: 'r', request_id: 'x' } as const;
  const finish = { finish_reason: 'stop', stop_reason: null } as const;
  await journal.append({ ...facts, offset: 0, ...deltaOf('a'), policy_version: 'v1' });
  await journal.append({ ...facts, offset: 1, ...deltaOf('b'), policy_version: 'v2', finish });
  await journal.release();
  const { error } = await bench.run('generateTurn', { input: AT });
  assert.equal(error, undefined);
  const trajectory = await bench.elsewhere().readTrajectory(REF);
  assert.deepEqual(versionsOf(trajectory), [[3, 'v2']]);
});

test('a pause is sat out before the weights are asked for', async (t) => {
  let version = 'v1';
  let left = 2;
  const service = scriptedService([says('x')], {
    weightVersion: () => version,
    isPaused: () => {
      left -= 1;
      if (left <= 0) version = 'v2';
      return left > 0;
    },
  });
  const clock = manualClock();
  const ticking = setInterval(() => void clock.pass(250), 5);
  t.after(() => {
    clearInterval(ticking);
  });
  assert.deepEqual(versionsOf(await played(t, { service, settings: ONE, clock })), [[1, 'v2']]);
  assert.equal(service.asked.generate, 1);
});
