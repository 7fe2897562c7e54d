import { isValid } from '../../src/client/show/entry.js';
import type { Entry } from '../../src/client/show/entry.js';
import { readRollout } from '../../src/client/show/read-batch.js';
import type { RolloutRef } from '../../src/model/batch-request.js';
import { hasImages, restoreImages } from '../../src/model/content.js';
import { lastResult } from '../../src/model/journal/lives.js';
import type { Trajectory } from '../../src/model/journal/trajectory.js';
import { isProgram } from '../../src/model/journal/trajectory.js';
import { unshelved } from '../../src/trajectories/shelf.js';
import type { LogMessage } from '../../src/model/results/row-parts.js';
import { rolloutId } from '../../src/model/workflow-safe/rollout-id.js';
import type { TrajectoryStore } from '../../src/trajectories/trajectory-store.js';
import type { ForkedFrom, RolloutDocument, RolloutEntry } from '../documents.js';
import { callParts, observationOf } from './calls.js';
import { factsOf } from './facts.js';
import { messageOf } from './messages.js';
import { collectPieces } from './pieces.js';

export type DocumentStore = Pick<TrajectoryStore, 'readTrajectory' | 'readSample' | 'facts'>;

/** A rollout, whole, from its journal. Its store alone is asked, also for pictures. */
export async function readDocument(
  ref: RolloutRef,
  store: DocumentStore,
): Promise<RolloutDocument> {
  const pieces = collectPieces();
  const rollout = await readRollout(ref, {
    readTrajectory: (of, take) =>
      store.readTrajectory(of, (line, trajectory) => {
        take?.(line, trajectory);
        pieces.take(line, trajectory);
      }),
  });
  const { trajectory, entry, happenings } = rollout;
  const { settings_in_force, lives, refused } = trajectory;
  const { model = null, ...settings } = settings_in_force ?? {};
  const observations = await shownIn(trajectory, { ref, store });
  const [verdict] = isProgram(trajectory) ? observations : [];
  return {
    id: rolloutId(ref),
    batch_id: ref.batch_id,
    entry: rolloutEntry(entry),
    facts: factsOf(rollout),
    model,
    settings,
    forked_from: forkedFrom(trajectory.start?.fork),
    prompt: (await promptOf(trajectory, { ref, store })).map(messageOf),
    calls: callParts({ trajectory, observations, piecesOf: pieces.of }),
    verdict: verdict === undefined ? null : observationOf(verdict),
    lives: lives.map(({ line: { life, at }, exit }) => ({
      life,
      started_at: at,
      exit: exit && { at: exit.at, code: exit.code, signal: exit.signal, tail: exit.tail },
    })),
    refused: refused.map(({ life, code, message }) => ({ life, code, message })),
    agent_result: lastResult(trajectory)?.text ?? null,
    scores: {},
    happenings,
  };
}

export const forkedFrom = (fork: ForkedFrom | undefined): ForkedFrom | null =>
  fork === undefined ? null : { rollout_id: fork.rollout_id, at: fork.at };

export const rolloutEntry = (entry: Entry): RolloutEntry => ({
  ...entry,
  is_valid: isValid(entry),
});

interface From {
  ref: RolloutRef;
  store: DocumentStore;
}

/** With the sample's pictures, which it names by their places there, and those that the environment has shown. */
async function promptOf({ start }: Trajectory, { ref, store }: From): Promise<LogMessage[]> {
  const prompt = start?.prompt ?? [];
  if (!prompt.some(({ content }) => hasImages(content))) return prompt;
  const { message_log } = await store.readSample(ref);
  return await unshelved(restoreImages(prompt, message_log), { ref, store });
}

/** The environment's answers, with their pictures. */
const shownIn = async (
  { observations }: Trajectory,
  { ref, store }: From,
): Promise<Trajectory['observations']> =>
  await Promise.all(
    observations.map(async (line) => {
      if (line.message === null || !hasImages(line.message.content)) return line;
      const [message = line.message] = await unshelved([line.message], { ref, store });
      return { ...line, message };
    }),
  );
