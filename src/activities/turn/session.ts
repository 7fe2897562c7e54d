import type { ExactEnvironment, EnvironmentMessage } from '../../environments/environment.js';
import { END_TIMEOUT_MS } from '../../environments/environment.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import type { ForeignObject } from '../../model/foreign-object.js';
import { textLog } from '../../model/content.js';
import type { Attempts } from '../../model/faults.js';
import { Fault } from '../../model/faults.js';
import { withDeadline } from '../../platform/waits/abort.js';
import { describeError, traceIn } from '../../platform/errors.js';
import type { Sample } from '../../model/sample.js';
import { environmentCall } from '../../model/journal/standing.js';
import { naturalEnd } from '../../model/turn/stop-rules.js';
import { MAX_LOSSES } from '../../model/journal/session.js';
import type { Trajectory } from '../../model/journal/trajectory.js';
import type { Share } from '../../platform/waits/allowance.js';
import { withShare } from '../../platform/waits/allowance.js';
import type { Answer } from './answer.js';
import { checkBounds, cleaned } from './answer.js';
import type { Dependencies } from '../dependencies.js';
import type { Playing } from '../playing.js';
import { recordFault } from '../record-fault.js';
import { sampleOf } from '../request-of.js';
import { commonMs } from '../../platform/waits/common-clock.js';

/**
 * The session that an environment holds for a rollout. The journal records it: `begin` when it was requested and opened
 * (no attempt opens another), `step` when a turn was sent and answered, `close` when it was ended.
 */

/** How long to wait for an unavailable environment, from the first try on, before the rollout ends anyway. */
const PATIENCE_S = 60;

/** Whether there is no start to continue from: none at all, or one whose session is lost. */
export const needsStart = (trajectory: Trajectory): boolean => {
  const { start, session, end } = trajectory;
  if (end !== null) return false;
  return start === null || (session.gone !== null && naturalEnd(trajectory) === null);
};

/**
 * The sample at the beginning of the rollout's life, with a session if the environment has them. Throws a fault if the
 * rollout has lost its session too often.
 */
export async function openLife(
  playing: Playing,
  { store, storeId, answers, environment: find, attempts }: Dependencies & { attempts: Attempts },
): Promise<Sample> {
  const { journal, ref } = playing;
  const { session } = journal.trajectory;
  if (session.losses >= MAX_LOSSES)
    throw new Fault({
      type: 'EnvironmentStateLost',
      message: `its session was lost ${session.losses} times, the last time: ${session.gone ?? ''}`,
    });
  const { sample } = await sampleOf(ref, store);
  const { environment } = find(sample.task_name) ?? {};
  if (environment?.begin === undefined) return sample;
  // An environment without sessions costs no journal line once that is known.
  if (session.begun === null && environment.mayBegin?.() === false) return sample;
  try {
    if (session.begun === null || session.begun.session === 'asked')
      await withShare(answers, (share) =>
        beginSession(playing, { sample, environment, share, storeId }),
      );
    const { messages, metadata } = session.begun ?? { messages: [], metadata: {} };
    const message_log = [...sample.message_log, ...unrendered(messages, sample)];
    return { ...sample, message_log, extra_env_info: metadata };
  } catch (error) {
    const names = { task: sample.task_name, service: '' };
    throw await recordFault(error, { ...playing, attempts, names });
  }
}

interface Beginning extends Pick<Dependencies, 'storeId'> {
  sample: Sample;
  environment: ExactEnvironment;
  share: Share;
}

/** Into the journal at once: the prompt may wait for its engine, and no later attempt may open another session. */
async function beginSession(
  playing: Playing,
  { sample, environment, share, storeId }: Beginning,
): Promise<void> {
  const { journal, ref, signal } = playing;
  const { session } = journal.trajectory;
  const { message_log, task_name, extra_env_info: metadata = {} } = sample;
  const begin = { kind: 'begin' as const, task_name };
  if (session.begun === null) {
    if (session.gone !== null) await endSession(playing, { environment, storeId, waits: false });
    // From here on any ending of the rollout ends this session, even if the answer is lost.
    const asked = { session: 'asked' as const, deployment: await storeId() };
    await journal.append({ ...begin, ...asked, messages: [], metadata });
    await journal.sync();
  }
  const { deployment } = session;
  const none = { session: 'none' as const, messages: [], metadata };
  try {
    const call = environmentCall(task_name);
    const idempotency_key = `${rolloutId(ref)}/begin-${session.lives}`;
    const begun = await playing.asks({ call, moved_at: () => null }, async () =>
      environment.begin?.(
        { message_log: textLog(message_log), metadata },
        { idempotency_key, deployment, signal, share },
      ),
    );
    if (begun) {
      const said = begun.messages.map(({ content }) => content);
      const bounds = { task: task_name, when: 'to begin with', brought: metadata };
      checkBounds({ ...bounds, said, metadata: begun.metadata });
    }
    const whose = deployment === undefined ? {} : { deployment };
    await journal.append({ ...begin, ...whose, ...(begun ? cleaned(begun) : none) });
  } catch (error) {
    throw environmentFault(task_name, { error, signal });
  }
}

/** The error of a call to an environment: an exception of its own code is a counted fault. */
export function environmentFault(
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

/** A message without ids cannot follow a sample that brings ids. */
function unrendered(messages: EnvironmentMessage[], sample: Sample): EnvironmentMessage[] {
  if (messages.length === 0 || sample.message_log[0]?.token_ids === undefined) return messages;
  throw new Fault({
    type: 'EnvironmentRejected',
    message: `environment ${sample.task_name} adds a message to the prompt: expected a sample without token_ids, got one with`,
  });
}

/**
 * One step, sent at most once by each sender: the journal records the request and its answer before anything else
 * happens. `ask` learns whether an earlier attempt sent it and recorded no answer.
 */
export async function stepInSession(
  { journal }: Pick<Playing, 'journal'>,
  ask: (more: { was_asked?: true }) => Promise<Answer>,
): Promise<Answer> {
  const { session, observations } = journal.trajectory;
  const { asked } = session;
  if (asked !== null && asked.answer !== null) return asked.answer;
  const turn = observations.length;
  await journal.append({ kind: 'step', turn, answer: null });
  await journal.sync();
  const answer = await ask(asked === null ? {} : { was_asked: true });
  await journal.append({ kind: 'step', turn, answer });
  return answer;
}

/**
 * Ends a rollout's session, if it has one. The journal records this first, so that no attempt continues in a session
 * that may be over. An unavailable environment is waited for a while. A failure is reported in log and journal and
 * changes nothing.
 */
async function endSession(
  playing: Playing,
  {
    environment,
    storeId,
    waits,
  }: Pick<Dependencies, 'storeId'> & { environment: ExactEnvironment | undefined; waits: boolean },
): Promise<void> {
  const { journal, signal, warn, ref } = playing;
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
  const end = environment.end.bind(environment);
  // A session is ended under the name under which it was begun.
  const deployment = is_open ? session.deployment : await storeId();
  try {
    const ended = await withDeadline(signal, {
      ms: END_TIMEOUT_MS,
      run: (bounded) => end(state, { idempotency_key, deployment, signal: bounded }),
    });
    if (ended !== is_open)
      await journal.append({ kind: 'close', ...(!ended && { session: 'none' }) });
  } catch (error) {
    signal.throwIfAborted();
    const fault =
      error instanceof Fault
        ? error
        : new Fault({ type: 'EnvironmentUnavailable', message: describeError(error) });
    const waited_s = commonMs() / 1000 - (session.closing_at ?? 0);
    if (is_open && waits && error === fault && isAway(fault) && waited_s < PATIENCE_S) throw fault;
    warn(`the session of ${rolloutId(ref)} was not ended: ${fault.message}`);
    if (is_open) await recordFault(fault, { journal });
  }
}

const isAway = ({ type }: Fault): boolean => type === 'EnvironmentUnavailable';

/** The identifier of the session that was opened last. */
function stateOf({
  session,
  observations,
  start,
  extra_env_info,
}: Trajectory): ForeignObject | null {
  if (session.begun !== null) return session.begun.metadata;
  if (start === null) return null;
  return observations.at(-1)?.metadata ?? extra_env_info;
}

/** The environment of a rollout, from its `begin` or `start`, before its end is written. */
export async function endSessionOf(
  playing: Playing,
  { environment, storeId }: Pick<Dependencies, 'environment' | 'storeId'>,
): Promise<void> {
  const { session, start } = playing.journal.trajectory;
  const task = session.begun?.task_name ?? start?.task_name ?? '';
  await endSession(playing, { environment: environment(task)?.environment, storeId, waits: true });
}
