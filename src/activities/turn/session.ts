import type { Environment, EnvironmentMessage, Metadata } from '../../environments/environment.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import { textLog } from '../../model/content.js';
import type { Attempts } from '../../model/faults.js';
import { Fault } from '../../model/faults.js';
import { describeError, traceIn } from '../../platform/errors.js';
import type { Sample } from '../../model/sample.js';
import { environmentCall } from '../../model/standing.js';
import { naturalEnd } from '../../model/turn/stop-rules.js';
import { MAX_LOSSES } from '../../model/session.js';
import type { Trajectory } from '../../model/trajectory.js';
import type { Share } from '../../platform/allowance.js';
import { withShare } from '../../platform/allowance.js';
import { boundedBeginning } from './answer-bounds.js';
import type { Answer } from './answer-of-one.js';
import { cleaned } from './answer-of-one.js';
import type { Dependencies } from '../dependencies.js';
import type { Hold } from '../hold.js';
import { recordFault } from '../hold.js';
import { sampleOf } from '../request-of.js';

/**
 * The session that an environment holds for a rollout. The journal says what is known of it: `begin` that it was asked
 * for and opened (no attempt opens another), `step` that a turn was sent to it and what it answered, `close` that it was
 * ended.
 */

/** For one call that ends a session: less than an attempt at finishing a rollout has. */
const END_TIMEOUT_MS = 30_000;
/** For the environment to come back, from the first try on: an ending is not held up for longer. */
const PATIENCE_S = 60;

/** Is there no start to go on from: none at all, or one whose session is gone? */
export const needsStart = (trajectory: Trajectory): boolean => {
  const { start, session, end } = trajectory;
  if (end !== null) return false;
  return start === null || (session.gone !== null && naturalEnd(trajectory) === null);
};

/**
 * The sample as the rollout's life begins: with a session, where the environment has them. Throws the fault of a rollout
 * that has lost its session too often.
 */
export async function openLife(
  hold: Hold,
  { store, answers, environment: find, attempts }: Dependencies & { attempts: Attempts },
): Promise<Sample> {
  const { journal, ref } = hold;
  const { session } = journal.trajectory;
  if (session.losses >= MAX_LOSSES) throw lostTooOften(session);
  const { sample } = await sampleOf(ref, store);
  const { environment } = find(sample.task_name) ?? {};
  if (environment?.begin === undefined) return sample;
  // An environment that has none costs no line of the journal, once that is known.
  if (session.begun === null && environment.mayBegin?.() === false) return sample;
  try {
    if (session.begun === null || session.begun.session === 'asked')
      await withShare(answers, (share) => beginSession(hold, { sample, environment, share }));
    const { messages, metadata } = session.begun ?? { messages: [], metadata: {} };
    const message_log = [...sample.message_log, ...unrendered(messages, sample)];
    return { ...sample, message_log, extra_env_info: metadata };
  } catch (error) {
    const names = { task: sample.task_name, service: '' };
    throw await recordFault(error, { ...hold, attempts, names });
  }
}

const lostTooOften = ({ losses, gone }: Trajectory['session']): Fault =>
  new Fault({
    type: 'EnvironmentStateLost',
    message: `its session was lost ${losses} times, the last time: ${gone ?? ''}`,
  });

/** Into the journal at once: the prompt may wait for its engine, and no later attempt opens another session. */
async function beginSession(
  hold: Hold,
  { sample, environment, share }: { sample: Sample; environment: Environment; share: Share },
): Promise<void> {
  const { journal, ref, signal } = hold;
  const { session } = journal.trajectory;
  const { message_log, task_name, extra_env_info: metadata = {} } = sample;
  if (session.begun === null) {
    if (session.gone !== null) await endSession(hold, { environment, waits: false });
    // Whoever ends the rollout from here on ends what may have begun, whatever became of the answer.
    await journal.append({ kind: 'begin', session: 'asked', task_name, messages: [], metadata });
    await journal.sync();
  }
  const none = { session: 'none' as const, messages: [], metadata };
  try {
    const call = environmentCall(task_name);
    const idempotency_key = `${rolloutId(ref)}/begin-${session.lives}`;
    const begun = await hold.asks({ call, moved_at: () => null }, async () =>
      environment.begin?.(
        { message_log: textLog(message_log), metadata },
        { idempotency_key, signal, share },
      ),
    );
    const bounded =
      begun && cleaned(boundedBeginning(begun, { task: task_name, brought: metadata }));
    await journal.append({ kind: 'begin', task_name, ...(bounded ?? none) });
  } catch (error) {
    throw thrownBy(task_name, { error, signal });
  }
}

/** What came of asking an environment: an exception of its own code is a fault that counts. */
export function thrownBy(
  task: string,
  { error, signal }: { error: unknown; signal: AbortSignal },
): unknown {
  if (error instanceof Fault || signal.aborted) return error;
  const message = `environment ${task} threw: ${describeError(error)}`;
  const trace = traceIn(error);
  return new Fault({
    type: 'EnvironmentFailed',
    message,
    cause: error,
    ...(trace !== null && { trace }),
  });
}

/** Ids that a sample brings cannot be continued by a message that has none. */
function unrendered(messages: EnvironmentMessage[], sample: Sample): EnvironmentMessage[] {
  if (messages.length === 0 || sample.message_log[0]?.token_ids === undefined) return messages;
  throw new Fault({
    type: 'EnvironmentRejected',
    message: `environment ${sample.task_name} adds a message to the prompt: expected a sample without token_ids, got one with`,
  });
}

/**
 * One step, sent at most once by whoever sends it: that it is sent, and what it was answered, is in the journal before
 * anything else happens. `ask` is told where an earlier attempt sent it and never wrote down an answer.
 */
export async function stepInSession(
  { journal }: Pick<Hold, 'journal'>,
  ask: (more: { was_asked?: true }) => Promise<Answer>,
): Promise<Answer> {
  const { session, turns } = journal.trajectory;
  const { asked } = session;
  if (asked !== null && asked.answer !== null) return asked.answer;
  const turn = turns.length;
  await journal.append({ kind: 'step', turn, answer: null });
  await journal.sync();
  const answer = await ask(asked === null ? {} : { was_asked: true });
  await journal.append({ kind: 'step', turn, answer });
  return answer;
}

/**
 * Ends the session of a rollout, where it has one. That it is ended is in the journal first: no attempt goes on in a
 * session that may be over. An environment that is away is waited for, for a while; a failure is said, in log and
 * journal, and changes nothing.
 */
async function endSession(
  hold: Hold,
  { environment, waits }: { environment: Environment | undefined; waits: boolean },
): Promise<void> {
  const { journal, signal, warn, ref } = hold;
  const { session } = journal.trajectory;
  const state = stateOf(journal.trajectory);
  if (environment?.end === undefined || state === null) return;
  const { is_open } = session;
  if (is_open && session.closing_at === null) {
    await journal.append({ kind: 'close', session: 'asked' });
    await journal.sync();
  }
  const life = session.begun === null ? session.lives - 1 : session.lives;
  const idempotency_key = `${rolloutId(ref)}/end-${life}`;
  const late = AbortSignal.any([signal, AbortSignal.timeout(END_TIMEOUT_MS)]);
  try {
    const ended = await environment.end(state, { idempotency_key, signal: late });
    if (ended !== is_open)
      await journal.append({ kind: 'close', ...(!ended && { session: 'none' }) });
  } catch (error) {
    signal.throwIfAborted();
    const fault =
      error instanceof Fault
        ? error
        : new Fault({ type: 'EnvironmentUnavailable', message: describeError(error) });
    const waited_s = Date.now() / 1000 - (session.closing_at ?? 0);
    if (is_open && waits && error === fault && isAway(fault) && waited_s < PATIENCE_S) throw fault;
    warn(`the session of ${rolloutId(ref)} was not ended: ${fault.message}`);
    if (is_open) await recordFault(fault, { journal });
  }
}

const isAway = ({ type }: Fault): boolean => type === 'EnvironmentUnavailable';

/** What names the session: of the one that was opened last. */
function stateOf({ session, turns, start, extra_env_info }: Trajectory): Metadata | null {
  if (session.begun !== null) return session.begun.metadata;
  if (start === null) return null;
  return turns.at(-1)?.observation.metadata ?? extra_env_info;
}

/** Before a rollout's end is written: which environment it has is said by what was begun or started. */
export async function endSessionOf(
  hold: Hold,
  { environment }: Pick<Dependencies, 'environment'>,
): Promise<void> {
  const { session, start } = hold.journal.trajectory;
  const task = session.begun?.task_name ?? start?.task_name ?? '';
  await endSession(hold, { environment: environment(task)?.environment, waits: true });
}
