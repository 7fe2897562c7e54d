import type { Beginning } from '../../environments/environment.js';
import { sizeOf } from '../../model/content.js';
import type { ForeignObject } from '../../model/foreign-object.js';
import { writeJson } from '../../platform/json/kept.js';
import { Fault } from '../../model/faults.js';
import type { Trajectory } from '../../model/journal/trajectory.js';
import type { Answer } from './answer.js';

/**
 * Size limit of the state that an environment returns. Every activity of the rollout holds it, and the journal has it
 * at each turn.
 */
const MAX_STATE_BYTES = 2 ** 20;
/** Limit for all observations of a rollout: more than any context takes. */
const MAX_CHARACTERS = 2 ** 26;

/**
 * The answer, with closer limits for what stays with the rollout: its state up to a megabyte or twice the sample's, and
 * its text by what was said before.
 */
export function boundedAnswer(
  answer: Answer,
  { task, trajectory }: { task: string; trajectory: Pick<Trajectory, 'observations' | 'start'> },
): Answer {
  const { observations, start } = trajectory;
  const characters = observations.reduce(
    (sum, observation) => sum + lengthOf(observation),
    lengthOf(answer),
  );
  if (characters > MAX_CHARACTERS) {
    throw tooMuch(task, `${MAX_CHARACTERS} characters in all observations, got ${characters}`);
  }
  checkState(answer.metadata, { task, brought: start?.extra_env_info });
  return answer;
}

/** The same for the beginning of a session, whose messages belong to the prompt. */
export function boundedBeginning(
  begun: Beginning<ForeignObject>,
  { task, brought }: { task: string; brought: ForeignObject },
): Beginning<ForeignObject> {
  const { messages, metadata } = begun;
  const characters = messages.reduce(
    (sum, { role, content }) => sum + role.length + content.length,
    0,
  );
  if (characters > MAX_CHARACTERS) {
    throw tooMuch(task, `${MAX_CHARACTERS} characters to begin with, got ${characters}`);
  }
  checkState(metadata, { task, brought });
  return begun;
}

function checkState(
  metadata: ForeignObject | null,
  { task, brought }: { task: string; brought: ForeignObject | undefined },
): void {
  const state = bytesOf(metadata);
  if (state <= MAX_STATE_BYTES) return;
  const most = Math.max(MAX_STATE_BYTES, 2 * bytesOf(brought));
  if (state > most) throw tooMuch(task, `${most} bytes of metadata, got ${state}`);
}

const lengthOf = ({ message }: Pick<Answer, 'message'>): number => sizeOf(message?.content ?? '');

const bytesOf = (value: unknown): number => Buffer.byteLength(writeJson(value ?? null));

const tooMuch = (task: string, what: string): Fault =>
  new Fault({
    type: 'EnvironmentRejected',
    message: `environment ${task} answered: expected at most ${what}`,
  });
