import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import type { RolloutSettings } from '../../model/journal.js';
import { generationCall } from '../../model/journal/standing.js';
import { isUnchanged, withReplica } from '../../model/policy/record.js';
import { openAnswer, prefixOf } from '../../model/journal/open-answers.js';
import { contextOf } from '../../model/journal/trajectory.js';
import { seedOf } from '../../model/turn/seeds.js';
import { checkPromptStillFits, nextStep, roomFor } from '../../model/turn/stop-rules.js';
import type { Call, Pool, Waits } from '../../sampling/call.js';
import { sample } from '../../sampling/sample.js';
import { knownEos } from '../../sampling/seam.js';
import { tapeOf } from '../../sampling/tape.js';
import type { Dependencies } from '../dependencies.js';
import type { Playing } from '../playing.js';
import { journalLost, poolOf, sharerOf } from '../playing.js';
import { recordFault } from '../record-fault.js';
import { picturesOf } from '../pictures.js';
import { playOpened } from '../play-from-journal.js';

/** Generates the turn in progress, unless the journal already has its generation. */
export const generateTurn = playOpened('generateTurn', async (playing, dependencies) => {
  if (nextStep(playing.journal.trajectory) === 'generate') await generate(playing, dependencies);
});

/**
 * One turn's answer, from the log to its `generation` line, by src/sampling. The line completes it: a retried activity
 * that finds it does not call the engine. A fault ends this attempt; Temporal makes the next one.
 */
export async function generate(playing: Playing, dependencies: Dependencies): Promise<void> {
  const { journal, ref, signal } = playing;
  const { trajectory } = journal;
  const { settings_in_force: settings } = trajectory;
  if (settings === null) throw journalLost(ref, { lacks: 'its start', store: dependencies.store });
  try {
    checkPromptStillFits(trajectory);
  } catch (error) {
    throw await recordFault(error, playing);
  }
  const pool = poolFor(settings, dependencies);
  const call = callOf(playing, { settings, dependencies });
  const means = {
    tape: tapeOf(journal, call.turn),
    pool,
    waits: waitsOf(playing, settings),
    signal,
  };
  for (;;) {
    const outcome = await sample(call, means);
    if (outcome === 'sampled') return;
    if (typeof outcome === 'object')
      throw await recordFault(outcome.failed, { journal, turn: call.turn });
  }
}

function callOf(
  playing: Playing,
  { settings, dependencies }: { settings: RolloutSettings; dependencies: Dependencies },
): Call {
  const { journal, ref } = playing;
  const { trajectory } = journal;
  const turn = trajectory.observations.length;
  const id = rolloutId(ref);
  const { stop_strings } = trajectory;
  return {
    turn,
    prompt_ids: contextOf(trajectory),
    pictures: () => picturesOf(playing, dependencies),
    get room() {
      return roomFor(trajectory);
    },
    stops: [...new Set([...settings.generation.stop_strings, ...(stop_strings ?? [])])],
    settings,
    request_id: `${id}.${turn}.${journal.writer}`,
    session_id: id,
    sharer: sharerOf(playing),
    // Its environment sees it whole; what a fork begins with stays.
    said: () => prefixOf(openAnswer(trajectory)),
    seed: (inherited) => seedOf(settings, { ...ref, turn, inherited }),
    eos_ids: () => knownEos(trajectory),
  };
}

/** A replica with other weights serves nothing until the policy's workflow has given it weights again. */
export function poolFor(settings: RolloutSettings, dependencies: Dependencies): Pool {
  const { request, special_tokens } = poolOf(settings, dependencies);
  const { records, wake } = dependencies.policy(settings.generation.service) ?? {};
  const distrust: Pool['distrust'] = async (replica, { fence: { epoch }, why }) => {
    await records?.change((now) =>
      now !== null && isUnchanged(now, { replica, epoch })
        ? withReplica(now, { replica, state: 'unknown', fault: why })
        : null,
    );
    await wake?.();
  };
  return { request, special_tokens, distrust };
}

/** An attempt that waits for an engine to wake up, or for weights, may give its slot to others. */
export function waitsOf(
  { journal: { trajectory }, reportWaiting, asks, idles, isUnserved, hasGivenWay }: Playing,
  { generation: { service } }: RolloutSettings,
): Waits {
  const call = generationCall(service);
  const moved_at = () => trajectory.standing.moved_at;
  return {
    mayBePaused: hasGivenWay,
    unserved: (message) => {
      idles(message === null ? null : () => false);
      if (message !== null) void reportWaiting({ service, message, holds: true });
      else if (isUnserved()) void reportWaiting(null);
    },
    paused: async (at) => {
      idles(at === null ? null : () => false);
      await reportWaiting(at);
    },
    asks: async (why, answer) => {
      const whyIdle = async (): Promise<string | null> => {
        const [said, silent_since] = [await why(), moved_at()];
        if (said !== null) idles(() => moved_at() !== silent_since);
        return said;
      };
      try {
        return await asks({ call, moved_at, why: whyIdle }, answer);
      } finally {
        idles(null);
      }
    },
  };
}
