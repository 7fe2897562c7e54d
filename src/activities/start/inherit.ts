import type { BatchRequest } from '../../model/batch-request.js';
import { Fault } from '../../model/faults.js';
import type { Fork } from '../../model/fork.js';
import { forkedPlace, pointOf } from '../../model/fork.js';
import type { Entry, LineOf } from '../../model/journal.js';
import type { Played } from '../../model/journal/prefix.js';
import { collectPlayed, cutOf, prefixLines } from '../../model/journal/prefix.js';
import { invalidBatchRequest, preview } from '../../model/problems.js';
import { writeJson } from '../../platform/json/kept.js';
import { withShare } from '../../platform/waits/allowance.js';
import type { TrajectoryStore } from '../../trajectories/trajectory-store.js';
import type { Dependencies } from '../dependencies.js';
import { unshelved } from '../../trajectories/shelf.js';
import { shelved } from '../pictures.js';
import type { Playing } from '../playing.js';
import { recordFault } from '../record-fault.js';
import { askEnvironment, turnOf } from '../turn/step-environment.js';

/** A fork begins with lines of another journal, and goes on behind them as after a death. */

export interface Prefix extends Played {
  start: LineOf<'start'>;
  /** The lines that stay, as the new journal takes them. */
  inherited: ReturnType<typeof prefixLines>;
}

/** Throws `InvalidBatchRequest` if the rollout has less than is to stay. */
export async function readPrefix(
  { fork, generation }: Pick<BatchRequest, 'generation'> & { fork: Fork },
  store: Pick<TrajectoryStore, 'readTrajectory'>,
): Promise<Prefix> {
  const { take, lines } = collectPlayed();
  const trajectory = await store.readTrajectory(forkedPlace(fork), take);
  const { start } = trajectory;
  const refused = (where: string, what: string): Fault =>
    invalidBatchRequest([{ where: `fork.${where}`, what }]);
  if (start === null)
    throw refused(
      'rollout_id',
      `expected a rollout that has begun, got ${fork.rollout_id}, which has no start in its journal`,
    );
  const cut = cutOf(trajectory, pointOf(fork));
  if ('has' in cut)
    throw refused('at', `expected a place that the rollout has (${cut.has}), got ${fork.at}`);
  const played = { trajectory, lines };
  return { ...played, start, inherited: prefixLines(played, { ...cut, generation }) };
}

/** Appends the inherited lines that the journal lacks: an earlier attempt may have died among them. */
export async function inheritPrefix(playing: Playing, dependencies: Dependencies): Promise<void> {
  const { trajectory } = playing.journal;
  const { start, prefix_lines } = trajectory;
  if (start?.fork === undefined || prefix_lines >= start.fork.lines) return;
  const { fork, settings } = start;
  const { store } = dependencies;
  await playing.memory.take(await store.journalSize(forkedPlace(fork)), playing.signal);
  const { inherited } = await readPrefix({ fork, ...settings }, store);
  if (inherited.length !== fork.lines)
    throw new Fault({
      type: 'ReplayDiffers',
      message: `expected ${fork.lines} lines of ${fork.rollout_id} before ${fork.at}, as when it was forked, got ${inherited.length}: it has been played again since`,
    });
  for (const line of inherited.slice(prefix_lines)) {
    if (line.kind === 'observation') await observeAgain(playing, { line, dependencies });
    else await playing.journal.append(line);
  }
}

/** An environment with sessions has to get there again; any other has its state in the line. */
async function observeAgain(
  playing: Playing,
  { line, dependencies }: { line: InheritedObservation; dependencies: Dependencies },
): Promise<void> {
  const { journal } = playing;
  const { trajectory } = journal;
  const { store, answers } = dependencies;
  await takePictures(playing, { line, store });
  if (!trajectory.session.is_open) {
    await journal.append(line);
    return;
  }
  try {
    await withShare(answers, async (share) => {
      const asked = turnOf(trajectory);
      const { answer } = await askEnvironment(playing, { ...dependencies, share, asked });
      const ends = answer.terminated || answer.truncated;
      if (ends || writeJson(answer.message) !== writeJson(line.message))
        throw replayDiffers(`turn ${line.turn}`, {
          expected: line.message?.content,
          got: ends ? 'the end of its episode' : answer.message?.content,
        });
      await journal.append({ ...line, metadata: answer.metadata });
    });
  } catch (error) {
    throw await recordFault(error, playing);
  }
}

/** Pictures are in the store by batches. */
async function takePictures(
  { ref, journal }: Playing,
  { line: { message }, store }: { line: InheritedObservation; store: TrajectoryStore },
): Promise<void> {
  const { fork } = journal.trajectory.start ?? {};
  if (fork === undefined || message === null) return;
  const [shown = message] = await unshelved([message], { ref: forkedPlace(fork), store });
  await shelved({ message: shown }, { ref, store });
}

type InheritedObservation = Extract<Entry, { kind: 'observation' }>;

export const replayDiffers = (
  where: string,
  { expected, got }: { expected: unknown; got: unknown },
): Fault =>
  new Fault({
    type: 'ReplayDiffers',
    message: `${where}: expected what the environment said in the rollout that this one forks, ${preview(expected)}, got ${preview(got)}`,
  });
