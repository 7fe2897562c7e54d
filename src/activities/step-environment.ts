import type { EnvironmentReturn, Metadata } from '../environments/environment.js';
import { rolloutId } from '../model/batch-request.js';
import { Fault, describeError } from '../model/faults.js';
import type { LineOf } from '../model/journal.js';
import { lengthLimit, limitObservation, nextStep } from '../model/stop-rules.js';
import { messageLog } from '../model/trajectory.js';
import type { Activities } from './contract.js';
import type { Dependencies } from './dependencies.js';
import type { Hold } from './hold.js';
import { notStarted, poolOf, recordFault } from './hold.js';
import { playFromJournal } from './play-from-journal.js';

/** Answers the generated turn, unless the journal holds the answer already. */
export function createStepEnvironment(dependencies: Dependencies): Activities['stepEnvironment'] {
  return playFromJournal(dependencies, {
    activity: 'stepEnvironment',
    play: async (hold) => {
      if (nextStep(hold.journal.trajectory) === 'step') await step(hold, dependencies);
    },
  });
}

/** One step, from the turn to the journal: the environment's answer, its observation's ids, what they leave room for. */
export async function step(hold: Hold, dependencies: Dependencies): Promise<void> {
  const { trajectory } = hold.journal;
  const { start, open } = trajectory;
  if (start === null || open.line === null) throw notStarted(hold.ref);
  const began = performance.now();
  try {
    const answer = await askEnvironment(hold, dependencies);
    const ids = await encode(answer.message.content, { hold, dependencies });
    const { token_ids, truncated } = limitObservation(ids, {
      semantics: start.settings.semantics,
      max_seq_len: lengthLimit(trajectory),
      input_tokens: trajectory.context_ids.length,
      generated_tokens: open.token_ids.length,
      finish_reason: open.line.finish_reason,
    });
    await hold.journal.append({
      kind: 'observation',
      turn: trajectory.turns.length,
      ...answer,
      token_ids,
      truncated,
      step_s: (performance.now() - began) / 1000,
    });
  } catch (error) {
    throw await recordFault(error, hold);
  }
}

type Answer = Pick<
  LineOf<'observation'>,
  'message' | 'reward' | 'rewards' | 'terminated' | 'metadata' | 'next_stop_strings' | 'answer'
>;

async function askEnvironment(
  { journal, ref, signal }: Hold,
  { environment }: Dependencies,
): Promise<Answer> {
  const { trajectory } = journal;
  const task = trajectory.start?.task_name ?? '';
  const deployed = environment(task);
  if (deployed === undefined) {
    throw new Fault({
      type: 'EnvironmentRejected',
      message: `No environment found for task type: ${task}`,
    });
  }
  // Only role and content: an environment that saw ids could not be answered by another tokenizer.
  const log = messageLog(trajectory).map(({ role, content }) => ({ role, content }));
  log.push({ role: 'assistant', content: trajectory.open.line?.content ?? '' });
  try {
    const answer = await deployed.environment.step(
      { message_log_batch: [log], metadata: [trajectory.extra_env_info] },
      { idempotency_key: `${rolloutId(ref)}/${trajectory.turns.length}`, signal },
    );
    return only(answer);
  } catch (error) {
    if (error instanceof Fault || signal.aborted) throw error;
    throw new Fault({
      type: 'EnvironmentRejected',
      message: `environment ${task} threw: ${describeError(error)}`,
      cause: error,
    });
  }
}

/** The answer of a batch of one. */
function only(answer: EnvironmentReturn): Answer {
  const message = answer.observations[0];
  if (message === undefined) {
    throw new Fault({
      type: 'EnvironmentRejected',
      message: 'the environment answered no observation',
    });
  }
  const named = Array.isArray(answer.rewards)
    ? {}
    : Object.fromEntries(
        Object.entries(answer.rewards).map(([name, values]) => [name, values[0] ?? 0]),
      );
  const reward = Array.isArray(answer.rewards)
    ? (answer.rewards[0] ?? 0)
    : Object.values(named).reduce((total, value) => total + value, 0);
  const metadata: Metadata | null = answer.metadata[0] ?? null;
  const given = answer.answers?.[0] ?? null;
  return {
    message,
    reward,
    rewards: named,
    terminated: Boolean(answer.terminateds[0]),
    metadata,
    next_stop_strings: answer.next_stop_strings?.[0] ?? null,
    ...(given !== null && { answer: given }),
  };
}

/** Without special tokens and without a template (upstream statement 25). */
async function encode(
  text: string,
  { hold, dependencies }: { hold: Hold; dependencies: Dependencies },
): Promise<number[]> {
  const settings = hold.journal.trajectory.start?.settings;
  if (text === '' || settings === undefined) return [];
  const { model } = settings;
  const { signal } = hold;
  return await poolOf(settings, dependencies).request(
    { session_id: rolloutId(hold.ref), signal, is_generation: false },
    (service) => service.tokenize({ model, text, add_special_tokens: false }, signal),
  );
}
