import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { GenerationSettings } from '../../src/model/generation-settings.js';
import { Fault } from '../../src/model/faults.js';
import type { RolloutSettings } from '../../src/model/journal.js';
import type { Sampled } from '../../src/model/journal/open-answers.js';
import type { Bench, Parts } from './activity-bench.js';
import { AT, activityBench } from './activity-bench.js';
import { GENERATION } from './journal-lines.js';
import type { ScriptedReply, ScriptedService } from './scripted-service.js';
import { deltaOf, scriptedService } from './scripted-service.js';
import { REF } from './temporary-store.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';

export const CUT = new Fault({ type: 'GenerationUnavailable', message: 'the stream was cut' });
export const cutAfter = (text: string): ScriptedReply => ({ deltas: [deltaOf(text)], then: CUT });

interface Played {
  bench: Bench;
  service: ScriptedService;
  open: Sampled;
}

/** A turn whose first attempt streams `begun` and is cut; the next attempt gets the replies. */
export async function resumed(
  t: TestContext,
  {
    begun,
    then,
    generation = {},
    settings = {},
    stop_strings = null,
    ...parts
  }: {
    begun: string;
    then: readonly ScriptedReply[];
    generation?: Partial<GenerationSettings>;
    settings?: Partial<RolloutSettings>;
    stop_strings?: string[] | null;
  } & Pick<Parts, 'special_tokens'>,
): Promise<Played> {
  const service = scriptedService([cutAfter(begun), ...then]);
  const bench = await activityBench(t, { service, ...parts });
  const all = { ...settings, generation: { ...GENERATION, ...generation } };
  await bench.started({ settings: all, stop_strings });
  await bench.failure('generateTurn', AT);
  assert.equal((await bench.result('generateTurn', AT)).phase, 'step');
  bench.checkPlayed();
  return { bench, service, open: openAnswer(await bench.elsewhere().readTrajectory(REF)) };
}
