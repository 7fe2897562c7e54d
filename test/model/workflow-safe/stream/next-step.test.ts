import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { NextStep } from '../../../../src/model/workflow-safe/stream/next-step.js';
import { nextStep, whyText } from '../../../../src/model/workflow-safe/stream/next-step.js';
import { roomForAdmission } from '../../../../src/model/workflow-safe/stream/pacing.js';
import type { PacingSettings } from '../../../../src/model/workflow-safe/stream/state.js';
import {
  pacingFrom,
  withAsk,
  withComplete,
  withOut,
  withStarvationReported,
} from '../../../../src/model/workflow-safe/stream/state.js';
import { sumOf } from '../../../../src/model/workflow-safe/failures.js';
import { groupsOf, SETTINGS } from './settings.js';

/** Step 3, asked with version 10. */
const asked = (groups: readonly string[], settings: Partial<PacingSettings> = {}): NextStep =>
  nextStep(
    withAsk(pacingFrom({ served: 10, next_step: 3, groups: groupsOf(...groups) }), { version: 10 }),
    { ...SETTINGS, ...settings },
  );

const whyOf = (step: NextStep): string => {
  assert.ok(!step.ready);
  return whyText(step.why);
};

describe('a step', () => {
  test('takes the oldest complete groups', () => {
    const groups = ['running 10', 'complete 10', 'complete 10', 'running 10', 'complete 10'];
    assert.deepEqual(asked(groups), {
      ready: true,
      version: 10,
      groups: [1, 2],
      dropped: [],
      final: false,
    });
  });

  test('is none before anybody asks', () => {
    const state = pacingFrom({ groups: groupsOf('complete 0', 'complete 0', 'running 0') });
    assert.equal(
      whyOf(nextStep(state, SETTINGS)),
      'step 0 has not been asked for: 2 complete, 1 running',
    );
  });

  test('waits until it is full', () => {
    const why = whyOf(asked(['complete 10', 'running 10', 'running 10']));
    assert.equal(why, 'step 3 takes 2 groups: 1 complete, 2 running');
  });

  test('waits for a group that the next one would find too old', () => {
    const step = asked(['running 9', 'complete 10', 'complete 10']);
    assert.equal(
      whyOf(step),
      'step 3 waits for group 0, which would be older in a later step than max_lag 1 allows',
    );
    assert.ok(asked(['complete 9', 'complete 10', 'running 10']).ready);
  });

  test('waits for groups that later steps have no room for: waiting for those due now is not enough', () => {
    // Four groups are due by step 4, none by step 3: this step leaves no more than two of them to it.
    const groups = ['running 10', 'running 10', 'running 10', 'complete 10', 'complete 11'];
    assert.match(whyOf(asked(groups)), /^step 3 waits for groups 0, 1, 2, which would be older/);
    assert.ok(asked(groups.with(0, 'complete 10').with(4, 'running 11')).ready);
  });

  test('says which version is to be published first', () => {
    const state = withAsk(pacingFrom({ served: 16, groups: groupsOf('running 16') }), {
      version: 18,
    });
    assert.equal(
      whyOf(nextStep(state, SETTINGS)),
      'asked with version 18, replicas serve 16, max_lag 1: publish 17 first',
    );
  });

  test('takes groups that faster versions have overtaken first', () => {
    const step = asked(['complete 3', 'complete 4', 'complete 10', 'running 10']);
    assert.deepEqual(step.ready && step.groups, [0, 1]);
  });
});

describe('with when_stale: drop', () => {
  const drop = { when_stale: 'drop' } as const;

  test('a step waits for no group: those that run and would be too old next are dropped', () => {
    const step = asked(['running 9', 'complete 10', 'complete 10', 'running 10'], drop);
    assert.deepEqual(step.ready && [step.groups, step.dropped], [[1, 2], [0]]);
  });

  test('groups that are too old are dropped before there is a step', () => {
    const step = asked(['complete 8', 'running 8', 'complete 9', 'running 9'], drop);
    assert.deepEqual(step.dropped, [0, 1]);
    assert.equal(whyOf(step), 'step 3 takes 2 groups: 1 complete, 1 running');
  });

  test('complete ones that are not too old yet stay', () => {
    const step = asked(['complete 9', 'complete 9', 'complete 9', 'complete 10'], drop);
    assert.deepEqual(step.ready && [step.groups, step.dropped], [[0, 1], []]);
  });
});

test('with when_stale: mask a step waits for no group and drops none', () => {
  const step = asked(['running 3', 'complete 4', 'running 9', 'complete 10'], {
    when_stale: 'mask',
  });
  assert.deepEqual(step.ready && [step.groups, step.dropped], [[1, 3], []]);
});

describe('when the epochs are used up', () => {
  const ofThree = { samples: 3, epochs: 1 };

  test('the last step is short', () => {
    const state = pacingFrom({ groups: groupsOf('complete 0', 'complete 0', 'complete 0') });
    const settings = { ...SETTINGS, ...ofThree };
    const first = nextStep(withAsk(state, {}), settings);
    assert.deepEqual(first.ready && [first.groups, first.final], [[0, 1], false]);
    const rest = { ...withAsk(state, {}), groups: state.groups.slice(2) };
    const last = nextStep(rest, settings);
    assert.deepEqual(last.ready && [last.groups, last.final], [[2], true]);
    const none = nextStep({ ...rest, groups: [] }, settings);
    assert.equal(whyOf(none), '3 samples, 1 epoch: all are used up, there is no step 0');
  });

  test('a full step that leaves none behind is the last one', () => {
    const step = asked(['complete 10', 'complete 10'], { samples: 2, epochs: 1 });
    assert.ok(step.ready && step.final);
  });

  test('it waits for groups that run', () => {
    const why = whyOf(asked(['complete 10', 'running 10', 'running 10'], ofThree));
    assert.equal(why, 'step 3 takes 2 groups: 1 complete, 2 running');
  });
});

describe('a stream that starves', () => {
  const starving = () => {
    let state = pacingFrom({ groups: groupsOf(...Array<string>(20).fill('running 0')) });
    for (let group = 0; group < 20; group++)
      state = withOut(state, { group, outcome: group < 15 ? 'filtered' : 'failed' });
    return withAsk(state, {});
  };

  test('names the reasons, as often as it is asked until they have been answered', () => {
    const why =
      'no group to deliver among the last ones (15 filtered, 5 failed): ask again to try 20 more; filtered: all members have the same reward; failed: too few members are valid';
    assert.equal(whyOf(nextStep(starving(), SETTINGS)), why);
    assert.equal(whyOf(nextStep(withAsk(starving(), {}), SETTINGS)), why);
  });

  test('names the three most frequent failures since the last step, each with an example', () => {
    const fails = (type: string, rollouts: number) => ({
      [type]: { rollouts, message: `why ${type}`, example: `s/${rollouts}-0` },
    });
    const failures = sumOf([
      fails('A', 1),
      fails('B', 9),
      fails('C', 4),
      fails('D', 2),
      fails('C', 3),
    ]);
    const why = whyOf(nextStep({ ...starving(), failures }, SETTINGS));
    const texts = [
      'B (9 rollouts, such as s/9-0): why B',
      'C (7 rollouts, such as s/4-0): why C',
      'D (2 rollouts, such as s/2-0): why D',
    ];
    assert.ok(why.endsWith(`too few members are valid; ${texts.join('; ')}`), why);
  });

  test('counts groups in which no token trains like the others, by their own name', () => {
    let state = pacingFrom({ groups: groupsOf(...Array<string>(20).fill('running 0')) });
    for (let group = 0; group < 20; group++)
      state = withOut(state, { group, outcome: 'untrained' });
    assert.equal(roomForAdmission(state, SETTINGS), 0);
    assert.match(
      whyOf(nextStep(withAsk(state, {}), SETTINGS)),
      /\(20 untrained\).*untrained: no token trains, because loss_multiplier is 0 or nothing was sampled$/,
    );
    assert.equal(state.out.untrained, 20);
  });

  test('tries as many more when it is asked again', () => {
    const told = withStarvationReported(starving());
    assert.equal(roomForAdmission(told, SETTINGS), 0);
    const again = withAsk(told, {});
    assert.equal(roomForAdmission(again, SETTINGS), 4);
    assert.match(whyOf(nextStep(again, SETTINGS)), /^step 0 takes 2 groups/);
  });

  test('continues with a group that comes complete', () => {
    const state = { ...starving(), groups: groupsOf('running 0') };
    assert.equal(roomForAdmission(withComplete(state, 0), SETTINGS), 3);
  });
});
