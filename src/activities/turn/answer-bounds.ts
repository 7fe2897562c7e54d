import { Fault } from '../../model/faults.js';
import type { Trajectory } from '../../model/trajectory.js';
import type { Answer } from './answer-of-one.js';

/** Of the state that an environment gives. Every activity of the rollout holds it, and the journal has it at each turn. */
const MAX_STATE_BYTES = 2 ** 20;
/** Of all observations of a rollout: more than any context takes. */
const MAX_CHARACTERS = 2 ** 26;

/**
 * The answer, where what stays of it with the rollout is bounded more closely than an answer as a whole: its state by
 * a megabyte, or by twice what the sample brought; its text by what was said before.
 */
export function boundedAnswer(
  answer: Answer,
  { task, trajectory }: { task: string; trajectory: Pick<Trajectory, 'turns' | 'start'> },
): Answer {
  const { turns, start } = trajectory;
  const characters = turns.reduce(
    (sum, { observation }) => sum + lengthOf(observation),
    lengthOf(answer),
  );
  if (characters > MAX_CHARACTERS) {
    throw tooMuch(task, `${MAX_CHARACTERS} characters in all observations, got ${characters}`);
  }
  const state = bytesOf(answer.metadata);
  if (state <= MAX_STATE_BYTES) return answer;
  const most = Math.max(MAX_STATE_BYTES, 2 * bytesOf(start?.extra_env_info));
  if (state > most) throw tooMuch(task, `${most} bytes of metadata, got ${state}`);
  return answer;
}

const lengthOf = ({ message }: Pick<Answer, 'message'>): number => message?.content.length ?? 0;

const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value ?? null));

const tooMuch = (task: string, what: string): Fault =>
  new Fault({
    type: 'EnvironmentRejected',
    message: `environment ${task} answered: expected at most ${what}`,
  });
