import type { Failure } from '../../model/journal.js';
import { lastWordsOf } from '../../model/journal/last-words.js';
import { glanceOf } from '../../model/journal/outcome.js';
import { totalsOf } from '../../model/journal/trajectory.js';
import type { StopReason } from '../../model/workflow-safe/stop-reasons.js';
import type { Dependencies } from '../dependencies.js';
import { runOf, stopped } from '../agent/open-life.js';

import type { Playing } from '../playing.js';
import { endSessionOf } from '../turn/session.js';

/** How a rollout ends. `failure` belongs to an end that is not valid. */
export interface RolloutEnd {
  stop_reason: StopReason;
  failure: Failure | null;
}

/** Writes a rollout's end, after its session is over. */
export async function endRollout(
  playing: Playing,
  {
    stop_reason,
    failure,
    ...dependencies
  }: RolloutEnd & Pick<Dependencies, 'environment' | 'storeId'>,
): Promise<void> {
  await endProgram(playing, dependencies);
  await endSessionOf(playing, dependencies);
  const { journal } = playing;
  const { trajectory } = journal;
  const glance = { ...glanceOf(trajectory), last_words: lastWordsOf(trajectory) };
  const summary = { totals: totalsOf(trajectory), failure, glance };
  await journal.append({ kind: 'end', stop_reason, ...summary });
}

/** A program that runs on has nothing left to play for. */
async function endProgram(
  { journal, ref, signal }: Playing,
  { environment }: Pick<Dependencies, 'environment'>,
): Promise<void> {
  const { lives, start } = journal.trajectory;
  const last = lives.at(-1);
  const { program } = environment(start?.task_name ?? '')?.environment ?? {};
  if (last === undefined || last.exit !== null || program === undefined) return;
  await stopped(program, { run: runOf(ref, last.line.life), signal });
}
