import type { EnvironmentMessage } from '../../environments/environment.js';
import { Fault } from '../../model/faults.js';
import type { ForeignObject } from '../../model/foreign-object.js';
import { isUpstream } from '../../model/semantics.js';
import { environmentCall } from '../../model/journal/standing.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import type { Share } from '../../platform/waits/allowance.js';
import type { Dependencies } from '../dependencies.js';
import type { Playing } from '../playing.js';
import { sharerOf } from '../playing.js';
import { shelved } from '../pictures.js';
import { unknownTask } from '../unknown-task.js';
import { boundedAnswer } from './answer-bounds.js';
import { journalled, type Answer } from './answer.js';
import { environmentFault, stepInSession } from './session.js';

/** What an environment is asked. */
export interface AskedStep {
  task: string;
  turn: { message_log: EnvironmentMessage[]; metadata: ForeignObject };
  /** How many messages of the log are the prompt's. */
  prompt_length: number;
}

/** Waits for a place at the environment, and asks it. */
export async function askEnvironment(
  playing: Playing,
  {
    environment,
    known,
    store,
    storeId,
    share,
    asked: { task, turn, prompt_length },
  }: Pick<Dependencies, 'environment' | 'known' | 'store' | 'storeId'> & {
    share: Share;
    asked: AskedStep;
  },
): Promise<{ answer: Answer; waited_ms: number }> {
  const { ref, signal } = playing;
  const { trajectory } = playing.journal;
  const { start } = trajectory;
  const deployed = environment(task);
  if (deployed === undefined) {
    throw new Fault({
      type: 'EnvironmentRejected',
      message: unknownTask(task, known),
    });
  }
  const context = {
    idempotency_key: `${rolloutId(ref)}/${trajectory.observations.length}`,
    deployment: await storeId(),
    // A journal has one start, which a restart removes with the rest.
    play: start?.writer,
    signal,
    share,
    ...(start !== null && !isUpstream(start.settings.semantics) && { prompt_length }),
  };
  const ask = async (more: { was_asked?: true } = {}): Promise<Answer> => {
    const given = await playing.asks({ call: environmentCall(task), moved_at: () => null }, () =>
      deployed.environment.step(turn, { ...context, ...more }),
    );
    const answer = boundedAnswer(journalled(given, task), { task, trajectory });
    return await shelved(answer, { ref, store });
  };
  try {
    if (trajectory.session.gone !== null)
      throw new Fault({ type: 'EnvironmentStateLost', message: trajectory.session.gone });
    const began = performance.now();
    const who = { sharer: sharerOf(playing), session_id: rolloutId(ref), signal };
    return await deployed.inPlace(who, async () => {
      const waited_ms = performance.now() - began;
      const once = deployed.environment.steps_once === true;
      return { answer: once ? await stepInSession(playing, ask) : await ask(), waited_ms };
    });
  } catch (error) {
    throw environmentFault(task, { error, signal });
  }
}
